package engine

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/progress"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl/internal/code"
	"github.com/bobnet-go/bobnet/vipl/internal/conn"
	"github.com/bobnet-go/bobnet/vipl/internal/handshake"
)

// rig is a machine without a NIC. Its link is the rig itself: frames come from a slice, those
// that are sent are kept, the clock and the interface's state are set by the test.
type rig struct {
	t       testing.TB
	m       Machine
	eng     progress.Engine
	now     int64
	in      [][]byte
	out     []ethertype.Header
	recvErr error
	state   error // of the interface, for Check
	moved   ethertype.MAC
	left    func(ports transport.PortRange, why error)
	vis     []*vi
	dead    []error
	damaged int
}

// vi is a connection and its side, and their owner.
type vi struct {
	conn   conn.Conn
	side   handshake.Side
	ended  error
	failed bool
	asks   bool
}

var (
	here = ethertype.MAC{2, 0, 0, 0, 0, 1}
	peer = ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, 2}, Port: 77}
)

const lowest, ports, mtu = 100, 8, 1500

func newRig(t testing.TB) *rig {
	r := &rig{t: t, now: int64(time.Hour)}
	r.m.Init(r, &r.eng, slog.New(slog.NewTextHandler(io.Discard, nil)), (*reliability.Config)(nil).Resolve(), 5, Hooks{
		Sealed:  func([]byte) {},
		Dead:    func(cause error) { r.dead = append(r.dead, cause) },
		Damaged: func(*conn.Conn) { r.damaged++ },
	})
	r.eng.Init(r, &r.m, &progress.Config{NoService: true})
	return r
}

func (r *rig) Info() transport.Info {
	return transport.Info{MAC: here, Hardware: r.moved, MTU: mtu, EtherType: ethertype.Default, Ports: transport.PortRange{Lo: lowest, Hi: lowest + ports - 1}}
}
func (r *rig) Now() int64             { return r.now }
func (r *rig) Ready() bool            { return len(r.in) > 0 }
func (r *rig) Wait(int64) error       { return nil }
func (r *rig) Wake()                  {}
func (r *rig) Stats() transport.Stats { return transport.Stats{} }
func (r *rig) Close() error           { return nil }
func (r *rig) Check() error           { return r.state }
func (r *rig) LocalMTU() int          { return 9000 }
func (r *rig) LocalSlots() int        { return 16 }
func (r *rig) OnDeparture(f func(ports transport.PortRange, why error)) {
	r.left = f
}

func (r *rig) Send(frames []transport.Frame) (int, error) {
	for i := range frames {
		var h ethertype.Header
		if _, err := h.Parse(frames[i].AppendTo(nil)); err != nil {
			r.t.Fatalf("a frame cannot be read: %v", err)
		}
		r.out = append(r.out, h)
	}
	return len(frames), nil
}

func (r *rig) Recv(views [][]byte) (int, error) {
	n := copy(views, r.in)
	r.in = r.in[n:]
	return n, r.recvErr
}

// open adds a VI whose peer is at remote, in the state Connected, or Connect Pending.
func (r *rig) open(level reliability.Level, remote ethertype.Addr, connected bool) *vi {
	port, ok := r.m.Ports.Free()
	if !ok {
		return nil
	}
	v := &vi{}
	v.conn.Init(&r.m.Shared, v, port, nil, nil)
	v.conn.SetTerms(conn.Terms{Reliability: level, ReadDepth: 4, PeerTimeout: time.Second}, 16)
	v.side.Init(&r.m.Connects, &v.conn, v)
	r.m.Ports.Add(&v.conn, &v.side)
	r.vis = append(r.vis, v)
	if !connected {
		v.asks = true
		v.side.Ask(remote, nil, false, int64(time.Second))
		return v
	}
	v.conn.EnterPending(uint32(1000 + port))
	v.conn.AdoptPeer(&conn.Peer{Remote: remote, Tag: uint32(2000 + port), Seq: 50, MTU: mtu}, 60)
	v.conn.EnterConnected(60, 50, 4)
	return v
}

func (v *vi) Raise(conn.Fault, *conn.Descriptor, code.Status, error) {}
func (v *vi) Lost(cause error, detail string) error                  { return fmt.Errorf("%w: %s", cause, detail) }
func (v *vi) Ended(cause error)                                      { v.ended = cause }
func (v *vi) Notify(bool)                                            {}
func (v *vi) Due() int64 {
	if !v.asks {
		return transport.Forever
	}
	return v.side.Due()
}
func (v *vi) Step()      { v.side.Step() }
func (v *vi) Connected() {}
func (v *vi) Failed()    { v.failed = true }
func (v *vi) Failure(_ ethertype.Addr, cause error, detail string) error {
	return fmt.Errorf("%w: %s", cause, detail)
}

// from returns a frame of the peer's of a connection.
func (v *vi) from(kind ethertype.Kind) ethertype.Header {
	return ethertype.Header{
		Dst: here, Src: v.conn.Remote.MAC, Type: ethertype.Default, Kind: kind, DstPort: v.conn.Port,
		SrcPort: v.conn.Remote.Port, Tag: v.conn.LocalTag, Seq: 50, Ack: 60, Flags: ethertype.FlagWholeCRC,
	}
}

// poll has the machine take frames, each with its payload's size in Size.
func (r *rig) poll(frames ...ethertype.Header) {
	for i := range frames {
		h := &frames[i]
		r.arrive(h, make([]byte, h.Size))
	}
	r.now += 1000
	r.m.Poll(r.now)
}

// arrive has a frame be on its way.
func (r *rig) arrive(h *ethertype.Header, payload []byte) {
	b := append(make([]byte, ethertype.HeaderSize), payload...)
	h.Put(b)
	ethertype.Seal(b)
	r.in = append(r.in, b)
}
