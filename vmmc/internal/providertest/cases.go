package providertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/vmmc/internal/provider"
)

// Cases has one case for each promise.
var Cases = []Case{
	{"Write", serving(1<<16, nil), caseWrite},
	{"Gather", serving(1<<16, nil), caseGather},
	{"Refusal", serving(4096, nil), caseRefusal},
	{"Forget", keeping, caseForget},
	{"Order", caseWatch, caseOrder},
	{"Notification", caseCount, caseNotify},
	{"Busy", caseHold, caseBusy},
	{"Full", serving(1<<20, nil), caseFull},
	{"Release", serving(1<<16, nil), caseRelease},
	{"Revoke", caseRevoke(false), caseStream(provider.ErrRevoked)},
	{"RevokeAtOnce", caseRevoke(true), caseStream(nil)},
	{"Redirect", caseMove, caseFollow},
	{"Killed exporter", caseDie, caseStream(provider.ErrPeer)},
	{"Killed importer", caseSurvive, caseVanish},
	{"Dead", caseNotDead, caseStream(provider.ErrPeer)},
	{"Close", caseEnd, caseStream(provider.ErrPeer)},
}

// serving returns the body of an exporter with size bytes for export 0. At the end, the exporter
// calls after with its memory.
func serving(size int, after func(n *Node, memory []byte) error) func(n, other *Node) error {
	return func(n, _ *Node) error {
		memory := n.memory(size)
		n.under(func() { n.allow(memory) })
		if after == nil {
			return nil
		}
		return after(n, memory)
	}
}

// holds compares the memory of an exporter's only grant with want. It can read the memory because
// both processes are parts of one program.
func (n *Node) holds(what string, want []byte) (err error) {
	n.p.Poll() // the two calls of Poll order the comparison after the engine's writes so far, and before its next ones
	n.under(func() { err = same(what, n.grant().Mem, want) })
	n.p.Poll()
	return err
}

// caseWrite: writes of all sizes and alignments arrive at their place, and change nothing else.
func caseWrite(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	if r.Size != 1<<16 || r.ID != 0 || r.Owner != other.p.Self() {
		return fmt.Errorf("a region of %d bytes of %+v", r.Size, r.Owner)
	}
	want := make([]byte, r.Size)
	for k, size := range []int{1, 3, 4, 8, 64, 128, 256, 257, 1000, 1448, 5000, 30001} {
		at := k*1001 + k
		b := pattern(size, k)
		copy(want[at:], b)
		if err := n.write(r, at, b); err != nil {
			return err
		}
		if err := other.holds(fmt.Sprint(size, " bytes"), want); err != nil {
			return err
		}
	}
	return nil
}

// caseGather: a write sends Size bytes of its pieces after the first Skip bytes, with and without
// Copy and Later.
func caseGather(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	all := pattern(3000, 1)
	want := make([]byte, r.Size)
	for k, w := range []provider.Write{
		{Skip: 0, Size: 3000}, {Skip: 999, Size: 2}, {Skip: 1000, Size: 1500, Later: true}, {Skip: 2999, Size: 1, Copy: true}, {Skip: 900, Size: 250, Copy: true},
	} {
		w.Region, w.Offset, w.Data, w.Token = r, uint64(4000*k), [][]byte{all[:1000], nil, all[1000:1100], all[1100:]}, k
		copy(want[w.Offset:], all[w.Skip:][:w.Size])
		if err := n.post(w); err != nil {
			return err
		}
		if err := n.ends("a gathered write", k); err != nil {
			return err
		}
	}
	return other.holds("gathered writes", want)
}

// caseRefusal: a process whose request is denied gets the reason and no region.
func caseRefusal(n, other *Node) error {
	a := &provider.Ask{ID: 5}
	n.under(func() { n.p.Ask(other.p.Self().Addr, a) })
	if err := n.until("a refusal", func() bool { return a.Why != 0 || a.Err != nil || a.Region != nil }); err != nil {
		return err
	}
	if a.Why != provider.ReasonPolicy || a.Region != nil {
		return fmt.Errorf("refused for %d, region %v, %w", a.Why, a.Region != nil, a.Err)
	}
	_, err := n.imports(other, 0) // the connection continues to work
	return err
}

// keeping leaves a request unanswered, and waits until it is withdrawn.
func keeping(n, _ *Node) error {
	if err := n.until("a request", func() bool { return n.asked == 1 }); err != nil { // asked counts requests, because the request may be withdrawn before this check
		return err
	}
	return n.until("its end", func() bool { return len(n.requests) == 0 })
}

func caseForget(n, other *Node) error {
	a := &provider.Ask{ID: 1}
	n.under(func() { n.p.Ask(other.p.Self().Addr, a) })
	if err := n.serve(func() bool {
		asked := 0
		other.under(func() { asked = len(other.requests) })
		return asked == 1
	}); err != nil {
		return err
	}
	n.under(func() { n.p.Forget(a) })
	return nil
}

// orderWrites is the number of pairs of writes in caseOrder. Each write has one frame.
const orderWrites = 40

// caseWatch: the exporter sees two writes in their order, and sees the last word of a write last.
func caseWatch(n, _ *Node) error {
	buf := n.memory(4096)
	n.under(func() { n.allow(buf) })
	for last := uint32(0); last < orderWrites; {
		second := atomic.LoadUint32(word(buf, 1024))
		if first := atomic.LoadUint32(word(buf, 508)); first < second {
			return fmt.Errorf("write %d is seen, and of the one before it %d", second, first)
		}
		if second != last {
			for at := 512; at < 1024; at += 4 {
				if v := atomic.LoadUint32(word(buf, at)); v < second {
					return fmt.Errorf("the last word of write %d is seen, and before it %d", second, v)
				}
			}
		}
		last = second
		n.p.Poll()
		n.under(func() { // the importer may send the next write
			n.turn()
			n.seen = last
		})
		if err := n.pause(step / 4); err != nil {
			return err
		}
	}
	return nil
}

// caseOrder is the importer of caseWatch. It writes at 508 first, and then from 512 to 1028.
func caseOrder(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	for k := uint32(1); k <= orderWrites; k++ {
		b := make([]byte, 516)
		for at := 0; at < len(b); at += 4 {
			binary.NativeEndian.PutUint32(b[at:], k)
		}
		if err := n.post(provider.Write{Region: r, Offset: 508, Data: [][]byte{b[:4]}, Size: 4, Copy: true}); err != nil {
			return err
		}
		if err := n.post(provider.Write{Region: r, Offset: 512, Data: [][]byte{b}, Size: len(b), Token: k}); err != nil {
			return err
		}
		if err := n.serve(func() (seen bool) {
			other.under(func() { seen = other.seen == k })
			return seen
		}); err != nil {
			return err
		}
	}
	return n.ends("the last write", uint32(orderWrites))
}

// notes is the number of notifications that caseCount's importer sends.
const notes = 150

// caseCount: notifications wait until there is room. Each is reported once, after its data has
// arrived.
func caseCount(n, _ *Node) error {
	buf := n.memory(4096)
	n.under(func() { n.allow(buf) })
	if err := n.until("a notification", func() bool { return len(n.noted) > 0 }); err != nil {
		return err
	}
	for range 50 { // only as many arrive as there is room for
		n.p.Poll()
		n.under(n.turn)
		if err := n.pause(step); err != nil {
			return err
		}
	}
	told := 0
	n.under(func() { told = len(n.noted) })
	if told >= notes {
		return fmt.Errorf("%d notifications that nobody has handled", told)
	}
	for handled := 0; handled < notes; {
		if err := n.until("a notification", func() bool { return len(n.noted) > handled }); err != nil {
			return err
		}
		if v := atomic.LoadUint32(word(buf, 0)); int(v) <= handled {
			return fmt.Errorf("notification %d is told, and the data is of %d", handled+1, v)
		}
		n.under(func() { n.p.Handled(n.noted[handled]) })
		handled++
	}
	return nil
}

func caseNotify(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	for k := uint32(1); k <= notes; k++ {
		b := binary.NativeEndian.AppendUint32(nil, k)
		if err := n.post(provider.Write{Region: r, Data: [][]byte{b}, Size: 4, Copy: true, Notify: true}); err != nil {
			return err
		}
	}
	return n.serve(func() bool {
		told := 0
		other.under(func() { told = len(other.noted) })
		return told >= notes
	})
}

// caseFull: if the maximum number of writes is in flight, another write is refused. When some
// writes have ended, there is room again.
func caseFull(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	src := pattern(1<<14, 2)
	posted := 0
	n.under(func() {
		for err == nil && posted <= Sends {
			if err = n.p.Post(&provider.Write{Region: r, Data: [][]byte{src}, Size: len(src), Later: true, Token: posted}); err == nil {
				posted++
			}
		}
	})
	if !errors.Is(err, provider.ErrFull) || posted == 0 {
		return fmt.Errorf("%d writes were posted; the next: %w", posted, err)
	}
	if err := n.until("all writes", func() bool { return r.Busy == 0 }); err != nil {
		return err
	}
	for k := range posted {
		if err := n.ends("a write", k); err != nil {
			return fmt.Errorf("write %d: %w", k, err)
		}
	}
	return n.write(r, 0, src)
}

// caseRelease: writes posted before a Release are executed, and nothing can be posted after it.
func caseRelease(n, other *Node) error {
	r, err := n.imports(other, 0)
	if err != nil {
		return err
	}
	src := pattern(9000, 3)
	var g *provider.Grant
	other.under(func() { g = other.grant() })
	if err := n.post(provider.Write{Region: r, Offset: 16, Data: [][]byte{src}, Size: len(src), Token: 1}); err != nil {
		return err
	}
	n.under(func() { n.p.Release(r) })
	if err := n.post(provider.Write{Region: r, Data: [][]byte{src}, Size: 1, Copy: true}); !errors.Is(err, provider.ErrReleased) {
		return fmt.Errorf("a write to what was released: %w", err)
	}
	if err := n.until("the write", func() bool { return r.Busy == 0 }); err != nil {
		return err
	}
	if err := n.ends("the write", 1); err != nil {
		return err
	}
	other.p.Poll()
	if err := same("the released memory", g.Mem[16:16+len(src)], src); err != nil {
		return err
	}
	return n.serve(func() (released bool) {
		other.under(func() { released = other.grants[g] })
		return released
	})
}
