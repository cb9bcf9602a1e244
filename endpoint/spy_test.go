package endpoint_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// spy is an intruder that connects as any client does, and then leaves its NIC
// alone and goes on by frames that it makes itself.
type spy struct {
	*intruder
	node     *endpoint.Node // that it attacks
	link     *recorder
	from, to endpoint.Name
	right    ethertype.Header // of its last frame
	broken   uint64           // connections of the node, when this one began
	messages uint64           // as many as there may be in what it has sent
	frame    []byte
	views    [transport.MaxBatch][]byte
	heard    ethertype.Header
}

// spyMost is how long its messages are, so that they fit into a frame.
const spyMost = 1400 // bytes

func newSpy(nic *vipl.NIC, link *recorder, node *endpoint.Node, from, to endpoint.Name, seed uint64) (*spy, error) {
	x, err := newIntruder(nic, seed)
	from.Addr.MAC = nic.Addr().MAC // a name of another host would be refused
	return &spy{intruder: x, node: node, link: link, from: from, to: to}, err
}

// ready makes a new connection when the last is no more.
func (y *spy) ready() error {
	broken := y.node.Stats().Broken
	if y.vi != nil && broken == y.broken {
		return y.overhear()
	}
	y.broken = broken
	if err := y.newVI(); err != nil {
		return err
	}
	ctx, cancel := y.nic.WithTimeout(bg, time.Minute)
	defer cancel()
	if err := y.vi.Connect(ctx, y.to.Addr, endpoint.HelloFor(y.from, y.to, 4)); err != nil {
		return err
	}
	y.link.take(lastHeard)
	y.messages++
	if !y.say(endpoint.Message(endpoint.ClientKinds[0], 13, 0, 1, hostileTag, hostileTag, 0, 0, nil, nil)) {
		return errors.New("the connection of the spy broke before its first mutant")
	}
	for _, f := range y.link.take(0) {
		if h := new(ethertype.Header); parses(h, f) && h.Kind == ethertype.KindData {
			y.right = *h
			return nil
		}
	}
	return fmt.Errorf("the spy has not heard itself")
}

func parses(h *ethertype.Header, f []byte) bool {
	_, err := h.Parse(f)
	return err == nil
}

// overhear takes what comes for its NIC, so that it can acknowledge it, and
// learns from it how to be a better intruder.
func (y *spy) overhear() error {
	for {
		n, err := y.link.Recv(y.views[:])
		if n == 0 || err != nil {
			return err
		}
		for _, f := range y.views[:n] {
			payload, err := y.heard.Parse(f)
			if h := &y.heard; err == nil && h.DstPort == y.right.SrcPort && h.Kind.Sequenced() && h.Seq == y.right.Ack {
				y.right.Ack++
				if h.Kind == ethertype.KindData && h.Flags&ethertype.FlagPacked == 0 && h.Offset == 0 {
					y.learn(payload)
				}
			}
		}
	}
}

// next returns its next frame: a mutated message, or a write to where it may
// write, or not. Some of them are altered besides, and take no number: the next
// one has it. They are valid until the next call.
func (y *spy) next(m *mutator) []byte {
	h := y.right
	h.Seq, h.Msg = h.Seq+1, h.Msg+1
	h.Kind, h.Flags, h.Offset, h.Count = ethertype.KindData, ethertype.FlagLast, 0, 1
	f := append(y.frame[:0], zeros[:]...)
	if y.rng.IntN(16) == 0 {
		to, slot, size := y.target()
		h.Kind, h.Flags, h.Length = ethertype.KindRDMAWrite, ethertype.FlagLast|ethertype.FlagImmediate, uint32(size)
		f = append(f, zeros[:ethertype.RDMASize]...)
		ethertype.RDMA{Addr: to.Addr, Handle: uint32(to.Handle), Immediate: slot}.Put(f[ethertype.HeaderSize:])
		f = append(f, y.mem[:size]...)
	} else {
		msg := y.mutant(hostileTag, endpoint.ClientKinds)
		f = append(f, msg[:min(len(msg), spyMost)]...)
		h.Length = uint32(len(f) - ethertype.HeaderSize)
	}
	h.Size = uint16(len(f) - ethertype.HeaderSize)
	h.Put(f)
	if y.rng.IntN(8) == 0 {
		to := [ethertype.HeaderSize]byte(f)
		f = fit(m.alter(f), to[:])
	} else {
		y.right = h
	}
	reseal(f)
	y.frame = f
	y.messages += uint64(len(f)-ethertype.HeaderSize)/endpoint.BaseSize + 1
	return f
}

// forge makes frames come from the spy's NIC.
func (y *spy) forge(frames [][]byte) {
	info := y.link.Info()
	for _, f := range frames {
		copy(f[atSrcMAC:], info.MAC[:])
		block(f[atSrcPort:], []byte{byte(info.Ports.Lo >> 8)})
		reseal(f)
	}
}
