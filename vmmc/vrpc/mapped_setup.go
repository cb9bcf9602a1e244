package vrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc"
)

// How a connection over VMMC is made. A server exports a door, which is memory that nothing
// is written to. A client imports it, exports memory for a greeting that only the server's
// process may write to, under a number that both can compute, and sends a notification to
// the door, which says who knocks. The server writes the greeting: which ring it has exported
// for this client. The client's first record there says which ring is for replies.
//
//	greeting    magic, status, export of the ring, its size, its key (2), 1, nothing
//	first call  magic, nothing, export of the ring, its size, its key (2)
//
// all words in network order.
const (
	mappedMagic  = 0x76525043 // the protocol's version 1
	greetingSize = 32
	setupSize    = 24

	greetingYes  = 0
	greetingFull = 1
)

// Numbers of exports from here on are this package's: of rings, and of greetings.
const (
	firstRingID     = 0xe000_0000
	firstGreetingID = 0xf000_0000
)

// greetingID returns the number of the export in which a client waits for a server's process.
func greetingID(server vmmc.Peer) uint32 {
	h := fnv.New32a()
	h.Write(server.Node[:])
	binary.Write(h, binary.BigEndian, server.Process)
	return firstGreetingID | h.Sum32()>>4
}

// exportRing exports memory for a ring to one process.
func exportRing(p *vmmc.Process, size int, to vmmc.Peer) (*vmmc.Export, []byte, error) {
	mem := make([]byte, ringControl+size)
	for {
		id := firstRingID | rand.Uint32()>>4
		e, err := p.Export(mem, id, vmmc.Policy{Processes: []vmmc.Peer{to}}, nil)
		if !errors.Is(err, vmmc.ErrExists) {
			return e, mem, err
		}
	}
}

// ringOffer is what one side tells the other of its ring.
type ringOffer struct {
	id, size uint32
	key      ringKey
}

func (o *ringOffer) append(buf []byte, status uint32) []byte {
	for _, word := range []uint32{mappedMagic, status, o.id, o.size} {
		buf = binary.BigEndian.AppendUint32(buf, word)
	}
	return append(buf, o.key[:]...)
}

// parseOffer is the inverse of append. The buffer has setupSize bytes or more.
func parseOffer(buf []byte) (o ringOffer, status uint32, err error) {
	word := func(i int) uint32 { return binary.BigEndian.Uint32(buf[4*i:]) }
	if word(0) != mappedMagic {
		return o, 0, fmt.Errorf("vrpc: the other side speaks %#x, this one %#x", word(0), uint32(mappedMagic))
	}
	return ringOffer{word(2), word(3), ringKey(buf[16:24])}, word(1), nil
}

// accept imports the ring that the other side offers, and checks that it is as it says.
func (o *ringOffer) accept(ctx context.Context, p *vmmc.Process, from vmmc.Peer) (*vmmc.Import, error) {
	if size := int(o.size); size != ringSize(size) {
		return nil, fmt.Errorf("vrpc: a ring of %d octets is offered: %d to %d are possible", o.size, minRing, maxRing)
	}
	i, err := p.Import(ctx, vmmc.Name{Node: from.Node, Process: from.Process, ID: o.id})
	if err != nil {
		return nil, err
	}
	if i.Size() != ringControl+int(o.size) {
		i.Unimport(ctx)
		return nil, fmt.Errorf("vrpc: a ring of %d octets is offered in an export of %d", o.size, i.Size())
	}
	return i, nil
}

// greetings holds a token for each greeting that a process waits for: only one at a time
// from each server.
var greetings sync.Map // of greetingKey, chan struct{}

type greetingKey struct {
	p  *vmmc.Process
	id uint32
}

func (k greetingKey) lock(ctx context.Context) error {
	for {
		mine := make(chan struct{})
		other, taken := greetings.LoadOrStore(k, mine)
		if !taken {
			return nil
		}
		select {
		case <-other.(chan struct{}):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k greetingKey) unlock() {
	mine, _ := greetings.LoadAndDelete(k)
	close(mine.(chan struct{}))
}

// knock makes a client's connection at a door. ring is the size of its own ring.
func knock(ctx context.Context, door *vmmc.Import, p *vmmc.Process, ring int) (m *mapped, err error) {
	server := door.Owner()
	offer, err := greet(ctx, door, p, server)
	if err != nil {
		return nil, err
	}
	export, mem, err := exportRing(p, ring, server)
	if err != nil {
		return nil, err
	}
	own := ringOffer{export.ID(), uint32(ring), newRingKey()}
	m = newMapped(p, mem, own.key)
	m.export = export
	to, err := offer.accept(ctx, p, server)
	if err != nil {
		m.close(ctx)
		return nil, err
	}
	m.connect(to, offer.key)
	s := sending{post: new(parcel)}
	if _, err := m.send(ctx, own.append(nil, 0), 0, nil, &s); err != nil {
		m.close(ctx)
		return nil, err
	}
	return m, nil
}

// greet knocks and waits for the greeting.
func greet(ctx context.Context, door *vmmc.Import, p *vmmc.Process, server vmmc.Peer) (o ringOffer, err error) {
	k := greetingKey{p, greetingID(server)}
	if err := k.lock(ctx); err != nil {
		return o, err
	}
	defer k.unlock()
	greeting := make([]byte, greetingSize)
	export, err := p.Export(greeting, k.id, vmmc.Policy{Processes: []vmmc.Peer{server}}, nil)
	if err != nil {
		return o, fmt.Errorf("vrpc: the number of the greeting's export: %w", err)
	}
	defer export.Unexport(context.WithoutCancel(ctx))
	if err := p.SendMsgWithNotify(ctx, nil, door.Addr()); err != nil {
		return o, err
	}
	greeted := vmmc.Word(greeting, greetingSize-2*vmmc.WordSize)
	if err := door.Await(ctx, func() bool { return atomic.LoadUint32(greeted) != 0 }); err != nil {
		return o, err
	}
	o, status, err := parseOffer(greeting)
	if err == nil && status != greetingYes {
		err = errors.New("vrpc: the server has too many connections (ServerConfig.MaxConns)")
	}
	return o, err
}
