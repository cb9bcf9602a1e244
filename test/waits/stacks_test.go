package waits_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/mplite"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/stream"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
)

var background = context.Background()

var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

// node is one program of a stack, connected with all others. A message has the size of a
// pattern's, which all nodes know.
type node interface {
	// send sends a message, and returns when the program may change its memory.
	send(to int) error
	// recv returns when the next message of another node has come.
	recv(from int) error
	// poll drives the network once.
	poll()
	close() error
}

// stacks are the stacks under test, by name.
var stacks = []struct {
	name string
	open func(s *segment, nic *vipl.NIC, rank int) (node, error)
}{
	{"vipl", openVIPL},
	{"mplite", openMPLite(mplite.Ahead)},
	{"mplite on use", openMPLite(mplite.OnUse)},
	{"am2", openAM},
	{"vmmc", openVMMC},
	{"stream", openStream},
	{"splitc/rdma", openSplitC("rdma")},
	{"splitc/reliable", openSplitC("reliable")},
	{"splitc/am", openSplitC("am")},
	{"splitc/unreliable", openSplitC("unreliable")},
}

// viplNode has a VI for each other node. A send waits until the peer's NIC has taken the message,
// which it asks for.
type viplNode struct {
	nic *vipl.NIC
	vis []*vipl.VI
	out vipl.Descriptor
}

// viplReceives is how many receives a VI has posted.
const viplReceives = 8

// viplPort is the port where a node takes the connection of node 0; those of others follow.
const viplPort = 2000

func openVIPL(s *segment, nic *vipl.NIC, rank int) (node, error) {
	v := &viplNode{nic: nic, vis: make([]*vipl.VI, s.nodes)}
	mem, handle, err := nic.AllocMem(2*s.size, nil)
	if err != nil {
		return nil, err
	}
	v.out = vipl.Descriptor{AckNow: true, Segs: []vipl.Segment{{Data: mem[:s.size], Handle: handle}}}
	listeners := make([]*vipl.Listener, s.nodes)
	for peer := rank + 1; peer < s.nodes; peer++ {
		if listeners[peer], err = nic.Listen(viplPort + uint16(peer)); err != nil {
			return nil, err
		}
	}
	if err := s.Sleep(time.Millisecond); err != nil { // until all listen
		return nil, err
	}
	for peer, l := range listeners {
		if peer == rank {
			continue
		}
		vi, err := nic.CreateVI(nil, nil, nil)
		if err != nil {
			return nil, err
		}
		v.vis[peer] = vi
		for range viplReceives {
			if err := vi.PostRecv(&vipl.Descriptor{Segs: []vipl.Segment{{Data: mem[s.size:], Handle: handle}}}); err != nil {
				return nil, err
			}
		}
		if l == nil {
			err = vi.Connect(background, ethertype.Addr{MAC: s.stations[peer].MAC(), Port: viplPort + uint16(rank)}, nil)
		} else if r, bad := l.Wait(background); bad != nil {
			err = bad
		} else {
			err = errors.Join(r.Accept(background, vi), l.Close())
		}
		if err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (v *viplNode) send(to int) error {
	if err := v.vis[to].PostSend(&v.out); err != nil {
		return err
	}
	_, err := v.vis[to].SendWait(background)
	return err
}

func (v *viplNode) recv(from int) error {
	d, err := v.vis[from].RecvWait(background)
	if err != nil {
		return err
	}
	return v.vis[from].PostRecv(d)
}

func (v *viplNode) poll()        { v.nic.Poll() }
func (v *viplNode) close() error { return nil }

// mpliteNode is a rank.
type mpliteNode struct {
	comm    *mplite.Comm
	nic     *vipl.NIC
	out, in []byte
}

func openMPLite(connect mplite.Connect) func(s *segment, nic *vipl.NIC, rank int) (node, error) {
	return func(s *segment, nic *vipl.NIC, rank int) (node, error) {
		comm, err := mplite.Init(background, &mplite.Config{
			Config:  job.Config{Job: "waits", Rank: rank, Size: s.nodes, NIC: nic, Logger: quiet},
			Connect: connect,
		})
		return &mpliteNode{comm, nic, make([]byte, s.size), make([]byte, s.size)}, err
	}
}

func (m *mpliteNode) send(to int) error { return m.comm.Send(background, m.out, to, 1) }

func (m *mpliteNode) recv(from int) error {
	_, err := m.comm.Recv(background, m.in, from, 1)
	return err
}

func (m *mpliteNode) poll()        { m.nic.Poll() }
func (m *mpliteNode) close() error { return m.comm.Finalize(background) }

// amNode is an endpoint. Its messages are short requests, medium ones or bulk transfers, by size.
type amNode struct {
	node   *endpoint.Node
	bundle *endpoint.Bundle
	ep     *endpoint.Endpoint
	args   []uint32
	data   []byte
	came   []int // by node
	taken  []int
	back   error
}

// amTake is the handler of messages.
const amTake = 1

func openAM(s *segment, nic *vipl.NIC, rank int) (node, error) {
	n, err := endpoint.Open(background, &endpoint.Config{NIC: nic, Logger: quiet})
	if err != nil {
		return nil, err
	}
	a := &amNode{node: n, came: make([]int, s.nodes), taken: make([]int, s.nodes)}
	if a.bundle, err = n.NewBundle(endpoint.Sequential); err != nil {
		return nil, err
	}
	if a.ep, err = a.bundle.NewEndpoint(); err != nil {
		return nil, err
	}
	a.ep.SetTag(endpoint.TagAll)
	a.ep.SetReturnHandler(func(r *endpoint.Returned) { a.back = fmt.Errorf("a message came back: %v %v", r.Reason, r.Err) })
	a.ep.SetHandler(amTake, func(_ endpoint.Token, args []uint32, _ []byte) { a.came[args[0]]++ })
	a.data, a.args = make([]byte, s.size), make([]uint32, 1)
	if s.size <= 4*(endpoint.MaxShort-1) {
		a.args = append(a.args, make([]uint32, s.size/4)...)
	}
	a.args[0] = uint32(rank)
	if err := a.ep.SetSegment(make([]byte, s.size)); err != nil {
		return nil, err
	}
	s.names[rank] = a.ep.Name().String()
	for peer := range s.nodes {
		if peer == rank {
			continue
		}
		for s.names[peer] == "" {
			a.poll()
			s.Sleep(time.Millisecond)
		}
		name, err := endpoint.ParseName(s.names[peer])
		if err == nil {
			err = a.ep.Map(peer, name, endpoint.TagAll)
		}
		if err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *amNode) send(to int) error {
	switch {
	case len(a.args) > 1 || len(a.data) < 4:
		return a.ep.Request(background, to, amTake, a.args...)
	case len(a.data) <= endpoint.DefaultMaxMedium:
		return a.ep.RequestMedium(background, to, amTake, a.data, a.args...)
	}
	return a.ep.RequestBulk(background, to, amTake, a.data, 0, a.args...)
}

func (a *amNode) recv(from int) error {
	for a.taken[from]++; a.came[from] < a.taken[from]; {
		if _, err := a.bundle.WaitPoll(background); err != nil {
			return err
		}
	}
	return a.back
}

func (a *amNode) poll()        { a.bundle.Poll() }
func (a *amNode) close() error { return a.node.Close() }

// vmmcNode has an export for each other node, and imports the one that each of these has for it.
type vmmcNode struct {
	p     *vmmc.Process
	out   []byte
	peers []vmmc.ProxyAddr
	came  []uint32
	taken []uint32
}

func openVMMC(s *segment, nic *vipl.NIC, rank int) (node, error) {
	p, err := vmmc.Open(background, &vmmc.Config{NIC: nic, Process: uint32(rank), Job: "waits", Logger: quiet})
	if err != nil {
		return nil, err
	}
	v := &vmmcNode{p: p, out: make([]byte, s.size), peers: make([]vmmc.ProxyAddr, s.nodes), came: make([]uint32, s.nodes), taken: make([]uint32, s.nodes)}
	for peer := range s.nodes {
		if peer == rank {
			continue
		}
		if _, err := p.Export(make([]byte, (s.size+7)&^7), uint32(peer+1), vmmc.Everybody, func(vmmc.Notification) { atomic.AddUint32(&v.came[peer], 1) }); err != nil {
			return nil, err
		}
	}
	for peer := range s.nodes {
		if peer == rank {
			continue
		}
		i, err := p.Import(background, vmmc.Name{Process: uint32(peer), ID: uint32(rank + 1)})
		if err != nil {
			return nil, err
		}
		v.peers[peer] = i.Addr()
	}
	return v, nil
}

func (v *vmmcNode) send(to int) error { return v.p.SendMsgWithNotify(background, v.out, v.peers[to]) }

func (v *vmmcNode) recv(from int) error {
	v.taken[from]++
	return v.p.Await(background, func() bool { return atomic.LoadUint32(&v.came[from]) >= v.taken[from] })
}

func (v *vmmcNode) poll()        { v.p.Poll() }
func (v *vmmcNode) close() error { return v.p.Close() }

// streamNode has a stream to each other node, and writes and reads as many bytes as a message has.
type streamNode struct {
	host    *stream.Host
	conns   []*stream.Conn
	out, in []byte
}

func openStream(s *segment, nic *vipl.NIC, rank int) (node, error) {
	h, err := stream.Open(background, &stream.Config{NIC: nic})
	if err != nil {
		return nil, err
	}
	n := &streamNode{h, make([]*stream.Conn, s.nodes), make([]byte, s.size), make([]byte, s.size)}
	name := func(at, from int) string { return fmt.Sprintf("bobnet://waits-%d-%d", at, from) }
	for peer := range s.nodes {
		switch {
		case rank < peer:
			l, err := (&stream.ListenConfig{Host: h}).Listen(background, name(rank, peer))
			if err != nil {
				return nil, err
			}
			if n.conns[peer], err = l.AcceptStream(); err != nil {
				return nil, err
			}
			l.Close()
		case rank > peer:
			ctx, cancel := nic.WithTimeout(background, time.Minute)
			n.conns[peer], err = (&stream.Dialer{Host: h}).Dial(ctx, name(peer, rank))
			cancel()
			if err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

func (n *streamNode) send(to int) error {
	_, err := n.conns[to].Write(n.out)
	return err
}

func (n *streamNode) recv(from int) error {
	_, err := io.ReadFull(n.conns[from], n.in)
	return err
}

func (n *streamNode) poll()        { n.host.NIC().Poll() }
func (n *streamNode) close() error { return n.host.Close() }

// splitNode is a process of Split-C, which stores into an array of each other process. A send waits
// until its memory may be changed.
type splitNode struct {
	w    *splitc.World
	to   splitc.Array[byte]
	mine []byte
}

func openSplitC(layer string) func(s *segment, nic *vipl.NIC, rank int) (node, error) {
	return func(s *segment, nic *vipl.NIC, rank int) (node, error) {
		w, err := splitc.Start(background, &splitc.Config{Config: job.Config{Job: "waits", Rank: rank, Size: s.nodes, NIC: nic, Logger: quiet}, Layer: layer, HeapSize: 2*s.size + 1<<20})
		if err != nil {
			return nil, err
		}
		n := &splitNode{w: w}
		if n.to, err = splitc.AllSpreadMalloc[byte](background, w, s.nodes, s.size); err != nil {
			return nil, err
		}
		from, err := splitc.AllSpreadMalloc[byte](background, w, s.nodes, s.size)
		n.mine = from.Local(w)
		return n, err
	}
}

func (n *splitNode) send(to int) error {
	if err := splitc.BulkStore(background, n.w, n.to.On(to), n.mine); err != nil {
		return err
	}
	return n.w.Sync(background)
}

func (n *splitNode) recv(int) error { return n.w.StoreSync(background, len(n.mine)) }
func (n *splitNode) poll()          { n.w.Poll() }
func (n *splitNode) close() error   { return n.w.Exit(background) }
