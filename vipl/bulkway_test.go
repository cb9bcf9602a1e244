package vipl_test

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/reliability"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/transport/ring"
	"github.com/bobnet-go/bobnet/transport/sim"
	"github.com/bobnet-go/bobnet/vipl"
)

// newTrialDuo is newBulkDuo with a link that leaves it to the engine whether bulk
// frames come apart. Bulk must save gain in a thousand.
func newTrialDuo(t testing.TB, gain int64) *duo {
	d := (&duo{t: t, bulk: true, trial: true}).set(nil, nil)
	d.na.BulkTrial(10_000, 40_000, gain)
	return d
}

// always and never are gains that bulk has in each pair, and in none.
var always, never = gains[0], gains[1]

// TestBulkVerdictOn: where bulk wins, frames are received where they belong from
// then on, and nothing switches to and fro any more.
func TestBulkVerdictOn(t *testing.T) {
	d := newTrialDuo(t, always)
	if way := d.na.BulkWay(); way != "measuring" || d.apart.starts > 0 {
		t.Fatalf("before the first long message: %s, started %d times", way, d.apart.starts)
	}
	d.stream(4, 1_000_000, false)
	if way := d.na.BulkWay(); way != "on" || d.apart.starts != 3 || !d.apart.started {
		t.Fatalf("after the trial: %s, started %d times, now %v", way, d.apart.starts, d.apart.started)
	}
	if n := d.a.Reordered(); n > 0 {
		t.Errorf("%d frames were overtaken by others", n)
	}
	const frames = 20 * 100_000 / (1500 - ethertype.BaseSize)
	if hits := d.stream(20, 100_000, false); hits < frames*8/10 {
		t.Errorf("%d of about %d frames were received where they belong", hits, frames)
	}
}

// TestBulkVerdictOff: where bulk loses, the link is told to stop for good, and the
// peer to mark no more frames; none comes apart from then on.
func TestBulkVerdictOff(t *testing.T) {
	d := newTrialDuo(t, never)
	marked, told := 0, 0
	d.links[1].onSend = func(f []byte) {
		if frameFlags(f)&ethertype.FlagBulk != 0 {
			marked++
		}
	}
	d.links[0].onSend = func(f []byte) {
		if frameFlags(f)&ethertype.FlagTakesBulk != 0 {
			told++
		}
	}
	d.stream(10, 100_000, false)
	if way := d.na.BulkWay(); way != "off" || d.apart.starts != 1 || !d.apart.gone || d.apart.apart == 0 || marked == 0 || told == 0 {
		t.Fatalf("after the trial: %s, started %d times, gone %v, %d frames came apart, %d were marked, the peer was told %d times",
			way, d.apart.starts, d.apart.gone, d.apart.apart, marked, told)
	}
	d.apart.apart, marked, told = 0, 0, 0
	if hits := d.stream(10, 100_000, false); hits != 0 || d.apart.apart != 0 || marked != 0 || told != 0 {
		t.Errorf("later %d frames came apart, %d of them where they belong, %d were marked, the peer was told %d times",
			d.apart.apart, hits, marked, told)
	}
}

// TestBulkTakenBack: the sender goes by the newest frame of its peer, and not by one
// that others have overtaken.
func TestBulkTakenBack(t *testing.T) {
	d := newBulkDuo(t, nil, nil)
	var old []byte // a frame of a that does not yet say that it takes marked ones
	d.links[0].onSend = func(f []byte) {
		if old == nil && frameFlags(f)&ethertype.FlagTakesBulk == 0 {
			old = append(old, f...)
		}
	}
	marked := 0
	d.links[1].onSend = func(f []byte) {
		if frameFlags(f)&ethertype.FlagBulk != 0 {
			marked++
		}
	}
	d.stream(1, 900, false)
	d.stream(2, 100_000, false)
	if old == nil || marked == 0 {
		t.Fatalf("a says so from the first frame on, or b marks none: %d", marked)
	}
	if n, err := d.links[0].Send([]transport.Frame{{Head: old}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	d.nb.Poll()
	marked = 0
	d.send(d.b, 100_000) // a window of its frames goes at once
	if marked < 5 {
		t.Errorf("after an old frame of its peer the sender marks %d frames", marked)
	}
}

// TestBulkNotLong: a sender of long frames marks none, whatever its peer says.
func TestBulkNotLong(t *testing.T) {
	d := newLongDuo(t, [2]bool{}, nil)
	d.patience = 40
	for _, n := range []*vipl.NIC{d.na, d.nb} {
		n.BulkFrom(1000)
	}
	d.links[0].onSend = func(f []byte) {
		binary.BigEndian.PutUint16(f[ethertype.OffsetFlags:], uint16(frameFlags(f)|ethertype.FlagTakesBulk))
		ethertype.Seal(f)
	}
	marked, long := 0, 0
	d.links[1].onSend = func(f []byte) {
		if frameFlags(f)&ethertype.FlagBulk != 0 {
			marked++
		}
		if len(f) > shortMTU+ethertype.EthernetSize {
			long++
		}
	}
	for range 3 {
		d.post(d.a, 100_000)
		d.send(d.b, 100_000)
		d.run()
		if _, err := d.a.RecvDone(); err != nil {
			t.Fatal(err)
		}
	}
	if marked > 0 || long == 0 {
		t.Errorf("%d frames are marked, %d are long", marked, long)
	}
}

// TestBulkTrialWorlds has both ends of lossy, disordered segments find out whether
// bulk frames are worth it: whatever the verdict, and while they switch to and fro,
// every message comes once, in order and intact.
func TestBulkTrialWorlds(t *testing.T) {
	verdicts := map[string]int{}
	seeds(t, manySeeds/5, func(seed uint64) error {
		w := newWorld(sim.Options{Seed: seed, Loss: 0.05, Dup: 0.05, Reorder: 0.1, ReorderBy: 16, MTU: []int{1500, 400}[seed%2]})
		w.try = true
		err := w.converse(vipl.Attributes{Reliability: reliableLevels[seed/2%2], PeerTimeout: time.Minute}, 2, 30, 60_000)
		for _, n := range w.nics {
			verdicts[n.BulkWay()]++
		}
		return err
	})
	if verdicts["on"] == 0 || verdicts["off"] == 0 {
		t.Errorf("verdicts: %v", verdicts)
	}
}

// idleBulk is a link that leaves it to the engine whether bulk frames come apart, of
// which none ever comes so.
type idleBulk struct{ *memLink }

func (idleBulk) Bulk() bool                                 { return true }
func (idleBulk) BulkOnTrial() bool                          { return true }
func (idleBulk) StartBulk() error                           { return nil }
func (idleBulk) StopBulk(bool) error                        { return nil }
func (idleBulk) RecvBulk([]transport.BulkSlot) (int, error) { return 0, nil }

// TestBulkTrialAllocations streams before, during and after a trial: from its end on,
// whatever the verdict, nothing is allocated.
func TestBulkTrialAllocations(t *testing.T) {
	for way, gain := range map[string]int64{"on": always, "off": never, "measuring": 0} {
		t.Run(way, func(t *testing.T) {
			la, lb := memPair(1500)
			a, b := memVIsOver(t, la, idleBulk{lb}, reliability.ReliableDelivery)
			size := 40_000
			if way == "measuring" {
				size = 1 << 30
			}
			b.NIC().BulkTrial(10_000, size, gain)
			in, _ := newBuffers(b.NIC(), 4, 100_000)
			out, _ := newBuffers(a.NIC(), 1, 100_000)
			for i := range in.descs {
				if err := b.PostRecv(&in.descs[i]); err != nil {
					t.Fatal(err)
				}
			}
			round := func() {
				if err := a.PostSend(&out.descs[0]); err != nil {
					t.Fatal(err)
				}
				for sent, got := false, false; !sent || !got; {
					if d, err := b.RecvDone(); err == nil {
						got = true
						b.PostRecv(d)
					}
					if _, err := a.SendDone(); err == nil {
						sent = true
					}
				}
			}
			for range 100 {
				round()
			}
			if got := b.NIC().BulkWay(); got != way {
				t.Fatalf("bulk is %s, want %s", got, way)
			}
			if n := testing.AllocsPerRun(100, round); n != 0 {
				t.Errorf("%v allocations per message", n)
			}
		})
	}
}

// TestBulkTrialOverVeth: a NIC without any wish finds out about bulk frames in a
// stream, and goes by it; but not where the stream comes in long frames.
func TestBulkTrialOverVeth(t *testing.T) {
	for _, c := range []struct {
		name string
		long ring.Choice
		gain int64
		want string
	}{
		{"Wins", ring.Off, always, "on"},
		{"Loses", ring.Off, never, "off"},
		{"LongFrames", ring.On, always, "measuring"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := vethtest.New(t, 1500)
			nics := [2]*vipl.NIC{}
			for side := range nics {
				nics[side] = openConfig(t, p, side, &vipl.Config{Interface: vethtest.Name, Long: c.long})
				nics[side].BulkTrial(100_000, 200_000, c.gain)
			}
			a, b := join(t, nics, nil)
			f := newFlow(t, a, b, 100, 50_000, 1)
			within(t, "the trial", func() error { return all(f.send, f.receive) })
			before := nics[1].Snapshot().Engine
			if before.Bulk != c.want {
				t.Fatalf("bulk is %s, want %s", before.Bulk, c.want)
			}
			a, b = join(t, nics, nil)
			f = newFlow(t, a, b, 100, 50_000, 2)
			within(t, "what comes then", func() error { return all(f.send, f.receive) })
			if hits := nics[1].Snapshot().Engine.BulkHits - before.BulkHits; (hits > 0) != (c.want == "on") {
				t.Errorf("bulk is %s, and %d frames came where they belong", c.want, hits)
			}
			if before.BulkHits > 0 && c.want == "measuring" {
				t.Errorf("%d frames came as bulk while all were long", before.BulkHits)
			}
		})
	}
}
