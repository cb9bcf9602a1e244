package vipl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/drops"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// TestSnapshotOfAHang: the peer vanishes while messages are under way. The
// snapshot names them, and says for how long; a message that still arrives
// elsewhere does not make the oldest one younger.
func TestSnapshotOfAHang(t *testing.T) {
	const size, count, wait = 4000, 5, 700 * time.Millisecond
	w := newWorld(sim.Options{Seed: 1, MTU: 1500})
	attr := &vipl.Attributes{Reliability: reliability.ReliableDelivery, PeerTimeout: 3 * time.Second}
	server := w.node("server", nil, func(n *vipl.NIC) error {
		l, err := n.Listen(service)
		if err != nil {
			return err
		}
		r, err := l.Wait(bg)
		if err != nil {
			return err
		}
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		if err := r.Accept(bg, v); err != nil {
			return err
		}
		return w.Sleep(2 * wait)
	})
	w.node("client", nil, func(n *vipl.NIC) error {
		v, err := n.CreateVI(attr, nil, nil)
		if err != nil {
			return err
		}
		if err := dial(v, ethertype.Addr{MAC: server.MAC(), Port: service}); err != nil {
			return err
		}
		w.Isolate(server)
		b, err := newBuffers(n, count, size)
		if err != nil {
			return err
		}
		for i := range b.descs {
			if err := v.PostSend(&b.descs[i]); err != nil {
				return err
			}
		}
		start := w.Now()
		for w.Now()-start < int64(wait) {
			n.Poll()
			w.Sleep(time.Millisecond)
		}
		return checkHang(v.Snapshot(), size, count, time.Duration(w.Now()-start))
	})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
}

func checkHang(s vipl.VISnapshot, size uint32, count int, wait time.Duration) error {
	if len(s.Pending) != count || s.SendQueue != count || s.SendUntaken != 0 {
		return fmt.Errorf("%d of %d sends are pending, %d not taken", len(s.Pending), s.SendQueue, s.SendUntaken)
	}
	for i, p := range s.Pending {
		want := vipl.PendingSend{Op: vipl.OpSend, Msg: uint32(i), Size: size, Sent: size, Age: p.Age, Again: p.Again}
		if i > 0 { // the window ends somewhere
			want.Msg, want.Sent = p.Msg, p.Sent
		}
		if p != want {
			return fmt.Errorf("pending send %d is %+v, want %+v", i, p, want)
		}
	}
	oldest := s.Pending[0]
	if off := wait - oldest.Age; s.OldestUnacknowledged() != oldest.Age || off < -2*time.Millisecond || off > 2*time.Millisecond {
		return fmt.Errorf("the oldest message was sent first %v ago, want %v", oldest.Age, wait)
	}
	if oldest.Again >= oldest.Age || s.Retransmits == 0 || s.Sender.Tries == 0 {
		return fmt.Errorf("the oldest message was sent first %v ago and last %v ago, %d frames sent again, %d time-outs",
			oldest.Age, oldest.Again, s.Retransmits, s.Sender.Tries)
	}
	if time.Duration(s.LastHeard) < wait {
		return fmt.Errorf("the peer was heard %v ago, it vanished %v ago", time.Duration(s.LastHeard), wait)
	}
	return nil
}

// TestSnapshotOfAFailure: what ended a connection stays readable.
func TestSnapshotOfAFailure(t *testing.T) {
	d := newDuo(t, nil, nil)
	d.send(d.a, 10) // nobody has posted a receive
	d.run()
	for name, v := range map[string]*vipl.VI{"a": d.a, "b": d.b} {
		s := v.Snapshot()
		if s.State != vipl.StateError || !strings.Contains(s.Err, vipl.ErrRecvQueue.Error()) {
			t.Errorf("%s: %v, %q; want the error state because of %v", name, s.State, s.Err, vipl.ErrRecvQueue)
		}
	}
	if text := dump(t, d.na.Snapshot()); !strings.Contains(text, "failed: "+d.a.Err().Error()) {
		t.Errorf("the dump does not say why the VI failed:\n%s", text)
	}
}

// TestSnapshotArriving: a message of which a part has come is seen to grow.
func TestSnapshotArriving(t *testing.T) {
	const size = 1 << 20
	w := newWorld(sim.Options{Seed: 1, MTU: 1500})
	var seen []uint32
	err := w.pair(nil, func(v *vipl.VI) error {
		b, err := newBuffers(v.NIC(), 1, size)
		if err != nil {
			return err
		}
		if err := v.PostRecv(&b.descs[0]); err != nil {
			return err
		}
		for v.Snapshot().RecvUntaken == 0 {
			v.NIC().Poll()
			if a := v.Snapshot().Arriving; a != nil {
				if a.Size != size {
					return fmt.Errorf("a message of %d bytes arrives, want %d", a.Size, size)
				}
				seen = append(seen, a.Got)
			}
			w.Sleep(100 * time.Microsecond)
		}
		return nil
	}, nil, func(v *vipl.VI) error {
		b, err := newBuffers(v.NIC(), 1, size)
		if err != nil {
			return err
		}
		w.Sleep(time.Millisecond) // until the receive is posted
		if err := v.PostSend(&b.descs[0]); err != nil {
			return err
		}
		_, err = v.SendWait(bg)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) < 2 || !slices.IsSorted(seen) || seen[0] == 0 || seen[len(seen)-1] >= size {
		t.Errorf("the message was seen to grow as %v, want several parts of %d in order", seen, size)
	}
}

// snapshotForText has something in every line.
func snapshotForText() vipl.Snapshot {
	s := vipl.Snapshot{
		Attributes: vipl.NICAttributes{Name: "bob0", Driver: "ring", Addr: addr(1, 1024), NativeMTU: 9000,
			Ports: transport.PortRange{Lo: 1024, Hi: 2047}, Incarnation: 0x1234},
		Link: transport.Stats{TxFrames: 1000, TxBytes: 1_234_567, TxCalls: 400, RxFrames: 1, RxBytes: 60, RxCalls: 1, Waits: 1, RxDrops: 7},
		Engine: vipl.EngineSnapshot{Driver: "caller asleep", Waiting: 1, LastPoll: 1_500_000, NextTimer: 250_000,
			Holding: 1},
		Listeners: []vipl.ListenerSnapshot{{Port: 1101, Backlog: 2}},
		Names:     []string{"job/0"},
		LinkErr:   "network interface is down",
	}
	s.Dropped[drops.CRC], s.Dropped[drops.Stale] = 3, 1
	s.Errors[vipl.CodeConnLost] = 1
	s.Failures, s.Regions, s.RegionBytes = 1, 3, 65536
	v := vipl.VISnapshot{Local: addr(1, 1025), Remote: addr(2, 1030), State: vipl.StateConnected, Level: reliability.ReliableDelivery,
		SendQueue: 40, SendUntaken: 6, RecvQueue: 64, LastHeard: int64(2 * time.Second), FrameData: 65433, Probes: 1, Arriving: &vipl.Arriving{Size: 100_000, Got: 2800}}
	v.Sender = reliability.SenderStats{InFlight: 12, Window: 0.5, Threshold: 16, RTT: 45_678, Tries: 4}
	v.Retransmits, v.RDMABytes = 17, 4096
	v.Dropped[drops.Duplicate], v.Dropped[drops.Ahead] = 5, 1
	v.Pending = []vipl.PendingSend{
		{Op: vipl.OpRDMAWrite, Msg: 17, Size: 1 << 20, Sent: 12_000, Age: 1_234_567_890, Again: 200 * time.Millisecond},
		{Op: vipl.OpSend, Size: 64},
	}
	failed := vipl.VISnapshot{Local: addr(1, 1026), Remote: addr(3, 1030), State: vipl.StateError, Level: reliability.Unreliable, Err: "peer disconnected"}
	s.VIs = []vipl.VISnapshot{v, failed, {Local: addr(1, 1027)}}
	return s
}

func addr(host byte, port uint16) ethertype.Addr {
	return ethertype.Addr{MAC: ethertype.MAC{2, 0, 0, 0, 0, host}, Port: port}
}

func dump(t *testing.T, s vipl.Snapshot) string {
	t.Helper()
	var b strings.Builder
	if n, err := s.WriteTo(&b); err != nil || n != int64(b.Len()) {
		t.Fatalf("WriteTo returned %d, %v after %d bytes", n, err, b.Len())
	}
	return b.String()
}

// TestDumpText pins the layout, for those who read it with a program.
func TestDumpText(t *testing.T) {
	const want = `NIC bob0  02:00:00:00:00:01/1024  driver ring  MTU 9000  ports 1024-2047  incarnation 0000000000001234
  sent              1000 frames, 1.2 MB, in 400 calls
  received          1 frame, 60 B, in 1 call, slept 1 time
  lost by the link  receive queue full 7
  passed over       none
  dropped           crc 3, stale 1
  errors            connections ended by an error 1, conn_lost 1, link: network interface is down
  engine            caller asleep, polled 1.5ms ago, next timer in 250µs, 1 goroutine waiting
  held back         VIs that wait for a fuller frame 1
  memory            3 regions, 65.5 kB
  listening         1101 (2 requests waiting)
  names             "job/0"

  3 VIs, 1 of them idle
  VI    STATE      PEER                    LEVEL       FRAME    HEARD         SENDQ  RECVQ  UNTAKEN  OLDEST  FLIGHT  WINDOW  SSTHRESH  RTT     TRIES  AGAIN  ARRIVING          RDMA    DROPPED
  1025  connected  02:00:00:00:00:02/1030  delivery    65433 B  2s (1 probe)  34     64     6/0      1.23s   12      0.5     16        45.7µs  4      17     2800 of 100000 B  4.1 kB  duplicate 5, ahead 1
  1026  error      02:00:00:00:00:03/1030  unreliable  -        -             0      0      0/0      -       -       -       -         -       -      0      -                 0 B     -
  VI 1026 failed: peer disconnected

  UNACKNOWLEDGED  MESSAGE  OPERATION   BYTES    SENT   AGE    SENT LAST
  VI 1025         17       RDMA write  1048576  12000  1.23s  200ms ago
  VI 1025         -        send        64       0      -      -
  VI 1025                  and 32 more
`
	if got := dump(t, snapshotForText()); got != want {
		t.Errorf("the dump is\n%s\nwant\n%s", got, want)
	}
}

// TestDumpEmpty: a NIC that has done nothing says so on every line.
func TestDumpEmpty(t *testing.T) {
	const want = `NIC (no name)  00:00:00:00:00:00/0  driver   MTU 0  ports 0-0  incarnation 0000000000000000
  sent              0 frames, 0 B, in 0 calls
  received          0 frames, 0 B, in 0 calls, slept 0 times
  lost by the link  none
  passed over       none
  dropped           none
  errors            none
  engine            , polled 0s ago, no timer, 0 goroutines waiting
  held back         none
  memory            0 regions, 0 B
  listening         none
  names             none

  0 VIs, 0 of them idle

  no send is unacknowledged
`
	if got := dump(t, vipl.Snapshot{}); got != want {
		t.Errorf("the dump is\n%s\nwant\n%s", got, want)
	}
}

// TestSnapshotJSON: names and not numbers stand for what has a name.
func TestSnapshotJSON(t *testing.T) {
	text, err := json.Marshal(snapshotForText())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"Dropped":{"crc":3,"stale":1}`, `"Dropped":{"ahead":1,"duplicate":5}`, `"State":"connected"`, `"Level":"delivery"`, `"Op":"RDMA write"`, `"Remote":"02:00:00:00:00:02/1030"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

// TestSnapshotAnytime looks at both ends again and again while messages, writes
// and reads go through a bad network: what a snapshot says holds together.
func TestSnapshotAnytime(t *testing.T) {
	seeds(t, 40, func(seed uint64) error {
		o := &onlooker{world: newWorld(sim.Options{Seed: seed, MTU: 1500, Loss: 0.1, Dup: 0.05, Reorder: 0.2}), open: 2}
		rng := rand.New(rand.NewPCG(seed, 1))
		return o.pair(nil, o.serve, nil, func(v *vipl.VI) error { return o.ask(v, rng) })
	})
}

// onlooker looks at two VIs in turns.
type onlooker struct {
	*world
	there vipl.RemoteSegment // the server's memory
	open  int                // ends that are not done
}

const lookedSize, lookedCount = 6000, 24

// drive polls until done has returned nil at both ends, or anything went wrong
// at one.
func (o *onlooker) drive(v *vipl.VI, done func() error) (err error) {
	defer func() {
		if err != nil {
			o.open = 0
		}
	}()
	start := o.Now()
	for finished := false; o.open > 0; {
		v.NIC().Poll()
		if err := consistent(v, o.Now()-start+int64(time.Second)); err != nil {
			return err
		}
		if err := done(); err == nil && !finished {
			finished = true
			o.open--
		} else if err != nil && !errors.Is(err, vipl.ErrNotDone) {
			return err
		}
		o.Sleep(500 * time.Microsecond)
	}
	return nil
}

func (o *onlooker) serve(v *vipl.VI) error {
	b, err := newBuffers(v.NIC(), lookedCount, lookedSize)
	if err != nil {
		return err
	}
	if err := v.NIC().SetMemAttributes(b.h, &vipl.MemAttributes{EnableRDMAWrite: true, EnableRDMARead: true}); err != nil {
		return err
	}
	for i := range b.descs {
		if err := v.PostRecv(&b.descs[i]); err != nil {
			return err
		}
	}
	o.there = vipl.RemoteSegment{Addr: vipl.VirtualAddress(b.mem), Handle: b.h}
	return o.drive(v, func() error { return nil })
}

// ask posts operations of all kinds and takes their completions.
func (o *onlooker) ask(v *vipl.VI, rng *rand.Rand) error {
	for o.there.Handle == 0 {
		v.NIC().Poll()
		o.Sleep(time.Millisecond)
	}
	b, err := newBuffers(v.NIC(), lookedCount, lookedSize)
	if err != nil {
		return err
	}
	for i := range b.descs {
		d := &b.descs[i]
		d.Op, d.Remote = []vipl.Op{vipl.OpSend, vipl.OpRDMAWrite, vipl.OpRDMARead}[rng.IntN(3)], o.there
		d.Segs[0].Data = d.Segs[0].Data[:1+rng.IntN(lookedSize)]
		if err := v.PostSend(d); err != nil {
			return err
		}
	}
	left := lookedCount
	return o.drive(v, func() error {
		for left > 0 {
			if _, err := v.SendDone(); err != nil {
				return err
			}
			left--
		}
		return nil
	})
}

// consistent checks what must hold for a VI at any time, age being more than
// that of anything sent.
func consistent(v *vipl.VI, age int64) error {
	s := v.Snapshot()
	if pending := s.SendQueue - s.SendUntaken; len(s.Pending) != min(pending, vipl.PendingMax) {
		return fmt.Errorf("%d sends are listed, %d pending", len(s.Pending), pending)
	}
	for i, p := range s.Pending {
		if p.Sent > p.Size || p.Age < p.Again-time.Millisecond || p.Age < 0 || p.Again < 0 || int64(p.Age) > age {
			return fmt.Errorf("pending send %d is %+v", i, p)
		}
	}
	if a := s.Arriving; a != nil && (a.Got > a.Size || a.Size == 0) {
		return fmt.Errorf("%+v arrives", *a)
	}
	_, err := v.NIC().Snapshot().WriteTo(io.Discard)
	return err
}

// TestVIStats: each counter of a connection is the VI's counter of that name.
func TestVIStats(t *testing.T) {
	vipl.EachStat(func(name string, conn, vi any) {
		if conn != vi {
			t.Errorf("%s: %v of the connection are %v of the VI", name, conn, vi)
		}
	})
}
