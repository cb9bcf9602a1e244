package mplite

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bobnet-go/bobnet/transport"
	"github.com/bobnet-go/bobnet/vipl"
)

// Algorithms runs every algorithm of every reduction, whatever the sizes, on a
// copy of send, and hands the result to got with what it is of: the reduction
// over all ranks at every rank, or at root only.
func Algorithms(ctx context.Context, c *Comm, send []uint64, op Op[uint64], root int, got func(name string, result []uint64) error) error {
	all := func(f func(x *coll, v []uint64, op Op[uint64]) error) func(x *coll) ([]uint64, error) {
		return func(x *coll) ([]uint64, error) {
			v := append([]uint64(nil), send...)
			return v, f(x, v, op)
		}
	}
	rooted := func(f func(x *coll, send, recv []uint64, op Op[uint64], root int) error) func(x *coll) ([]uint64, error) {
		return func(x *coll) ([]uint64, error) {
			v := make([]uint64, len(send))
			if err := f(x, send, v, op, root); err != nil || x.rank != root {
				return nil, err
			}
			return v, nil
		}
	}
	algorithms := []struct {
		name string
		run  func(x *coll) ([]uint64, error)
	}{
		{"allreduceDoubling", all(allreduceDoubling[uint64])},
		{"allreduceHalving", all(allreduceHalving[uint64])},
		{"reduceTree", rooted(reduceTree[uint64])},
		{"reduceHalving", rooted(reduceHalving[uint64])},
	}
	if op.commutative {
		algorithms = append(algorithms, struct {
			name string
			run  func(x *coll) ([]uint64, error)
		}{"allreduceRing", all(allreduceRing[uint64])})
	}
	for _, a := range algorithms {
		x, err := c.begin(ctx, sign[uint64](callAllreduce, 0, op.code, len(send)))
		if err != nil {
			return err
		}
		v, err := a.run(&x)
		if err == nil && v != nil {
			err = got(a.name, v)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ReduceScatters runs every algorithm of ReduceScatter, with a commutative operation, and hands this
// rank's part of the result to got.
func ReduceScatters(ctx context.Context, c *Comm, send []uint64, counts []int, op Op[uint64], got func(name string, result []uint64) error) error {
	for _, a := range []struct {
		name string
		run  func(x *coll, send, recv []uint64, parts layout, op Op[uint64]) error
	}{
		{"reduceScatterAll", reduceScatterAll[uint64]},
		{"reduceScatterHalving", reduceScatterHalving[uint64]},
		{"reduceScatterPairs", reduceScatterPairs[uint64]},
	} {
		x, err := c.begin(ctx, sign[uint64](callReduceScatter, 0, op.code, len(send)))
		if err != nil {
			return err
		}
		recv := make([]uint64, counts[x.rank])
		parts, err := x.partsOf("send", counts, nil, 1, len(send))
		if err == nil {
			err = a.run(&x, send, recv, parts, op)
		}
		if err == nil {
			err = got(a.name, recv)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Movers runs every algorithm of the collectives that only move bytes, each
// rank contributing send, whose contents part tells for any rank.
func Movers(ctx context.Context, c *Comm, n, root int, part func(rank int) []byte, same func(name string, got, want []byte) error) error {
	var everything []byte
	for r := range c.Size() {
		everything = append(everything, part(r)...)
	}
	mine := part(c.Rank())
	for _, a := range []struct {
		name string
		run  func(x *coll) (got, want []byte, err error)
	}{
		{"bcastTree", func(x *coll) ([]byte, []byte, error) { return x.bcastWith(x.bcastTree, root, part(root)) }},
		{"bcastScatter", func(x *coll) ([]byte, []byte, error) {
			return x.bcastWith(func(b []byte, root int) error { return x.bcastScatter(b, root, 1) }, root, part(root))
		}},
		{"gatherTree", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, len(everything))
			return x.atRoot(root, recv, everything, x.gatherTree(mine, recv, root))
		}},
		{"gatherDirect", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, len(everything))
			return x.atRoot(root, recv, everything, x.gatherDirect(mine, recv, layout{block: n}, root))
		}},
		{"scatterTree", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, n)
			return recv, mine, x.scatterTree(everything, recv, root)
		}},
		{"scatterDirect", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, n)
			return recv, mine, x.scatterDirect(everything, recv, layout{block: n}, root)
		}},
		{"allgatherRing", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, len(everything))
			copy(recv[n*x.rank:], mine)
			return recv, everything, x.allgatherRing(recv, layout{block: n})
		}},
		{"allgatherBruck", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, len(everything))
			copy(recv[n*x.rank:], mine)
			return recv, everything, x.allgatherBruck(recv)
		}},
		{"alltoallPairs", func(x *coll) ([]byte, []byte, error) {
			send, want := x.crossing(part)
			recv := make([]byte, len(send))
			return recv, want, x.alltoallPairs(send, recv, layout{block: n}, layout{block: n})
		}},
		{"alltoallTogether", func(x *coll) ([]byte, []byte, error) {
			send, want := x.crossing(part)
			recv := make([]byte, len(send))
			return recv, want, x.alltoallTogether(send, recv, layout{block: n}, layout{block: n})
		}},
		{"allgatherTogether", func(x *coll) ([]byte, []byte, error) {
			recv := make([]byte, len(everything))
			copy(recv[n*x.rank:], mine)
			return recv, everything, x.allgatherTogether(recv, layout{block: n})
		}},
		{"allgatherDoubling", func(x *coll) ([]byte, []byte, error) {
			if x.size != floorPow2(x.size) {
				return nil, nil, nil
			}
			recv := make([]byte, len(everything))
			copy(recv[n*x.rank:], mine)
			return recv, everything, x.allgatherDoubling(recv)
		}},
		{"alltoallBruck", func(x *coll) ([]byte, []byte, error) {
			send, want := x.crossing(part)
			recv := make([]byte, len(send))
			return recv, want, x.alltoallBruck(send, recv, n)
		}},
	} {
		x, err := c.begin(ctx, sign[byte](callBcast, 0, opNone, n))
		if err != nil {
			return err
		}
		got, want, err := a.run(&x)
		if err == nil {
			err = same(a.name, got, want)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *coll) bcastWith(f func(b []byte, root int) error, root int, want []byte) (got, _ []byte, err error) {
	b := make([]byte, len(want))
	if x.rank == root {
		copy(b, want)
	}
	return b, want, f(b, root)
}

func (x *coll) atRoot(root int, got, want []byte, err error) ([]byte, []byte, error) {
	if x.rank != root {
		return nil, nil, err
	}
	return got, want, err
}

// crossing is an all-to-all in which part 100*from+to goes between two ranks.
func (x *coll) crossing(part func(int) []byte) (send, want []byte) {
	for r := range x.size {
		send = append(send, part(100*x.rank+r)...)
		want = append(want, part(100*r+x.rank)...)
	}
	return send, want
}

// SetMaxWrite makes rendezvous take several writes already from n bytes on.
func SetMaxWrite(c *Comm, n int) { c.w.maxWrite = n }

// SetForeign makes the rank one whose host has the other byte order, or not. The
// numbers in the memory of its program are as Foreign makes them.
func SetForeign(c *Comm, on bool) {
	c.w.order = hostBig
	if on {
		c.w.order ^= flagBig
	}
}

// Bytes returns the memory of buf.
func Bytes[T any](buf []T) []byte { return asBytes(buf) }

// Foreign returns the numbers as the other byte order has them in memory, or
// makes what has them so numbers again.
func Foreign[T any](buf []T) []T {
	out := append([]T(nil), buf...)
	elementOf[T]().swap(asBytes(out))
	return out
}

// SpillKept returns the bytes that messages wait in and that are kept for others,
// and what the pool believes them to be.
func SpillKept(c *Comm) (kept, believed int) {
	kept = c.w.spill.used
	for _, class := range c.w.spill.free {
		for _, in := range class {
			kept += cap(in.data) + spillOverhead
		}
	}
	return kept, c.w.spill.kept
}

// LandTotal bounds Landings.
const LandTotal = landTotal

// Landings returns the bytes of landing memory of the rank.
func Landings(c *Comm) int { return c.w.landings }

// Hello returns what a rank says when it asks another one for a connection.
func Hello(job string, rank, size int) []byte {
	w := &world{rank: rank, size: size}
	w.job, _ = newJob(w, job)
	return w.job.Hello()
}

// ClearedTo returns where a peer writes the message that r receives.
func ClearedTo(r Request) vipl.RemoteSegment {
	return vipl.RemoteSegment{Addr: vipl.VirtualAddress(r.of.buf), Handle: r.of.mem}
}

// Unsaid returns how many control messages for a rank wait for credits.
func Unsaid(c *Comm, rank int) int { return c.w.peers.At(rank).pending.Len() }

// Requests returns how many requests the rank has ever needed at the same time.
func Requests(c *Comm) int { return len(c.w.requests) }

// Staged returns the bytes of staging memory that the rank keeps.
func Staged(c *Comm) int { return c.w.stages.kept }

// Connected returns how many ranks c's rank has a VI for.
func Connected(c *Comm) (n int) {
	for _, p := range c.w.peers.All() {
		if p.VI != nil {
			n++
		}
	}
	return n
}

// WireVersion is wireVersion, for tests.
const WireVersion = wireVersion

// ConnectWithin has c connect with a rank. The attempt has ended before c looks for its end: meanwhile runs
// until then.
func ConnectWithin(c *Comm, rank int, meanwhile func(vi *vipl.VI)) error {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.peer(rank)
	_, p.params = w.job.Station(rank)
	p.caller = true
	return p.attempt(func() error {
		err := w.job.Dial(p.VI, rank)
		meanwhile(p.VI)
		return err
	})
}

// memory stands for a link that reads memory of other processes.
type memory struct {
	transport.Link
	read func(dst []byte, from, mark uint64) (uint64, error)
}

func (m memory) ReadMemory(_ uint16, dst []byte, from, mark uint64) (uint64, error) {
	return m.read(dst, from, mark)
}

// SetMemory makes c's rank, and the ranks that it is connected with, processes of one host whose memory
// read reads.
func SetMemory(c *Comm, read func(dst []byte, from, mark uint64) (uint64, error)) {
	c.w.reader = memory{read: read}
	for _, p := range c.w.peers.All() {
		p.near = 1
	}
}

// MeetRanks is the maximum number of ranks that share memory.
const MeetRanks = meetRanks

// MeetSlots is how many calls a rank can be ahead of another one in shared memory.
const MeetSlots = meetSlots

// PartMost is the length of the longest part that Gatherv and others move through shared memory.
const PartMost = partMost

// Share makes c's rank share memory with the other ranks of the job, which all pass the same memory.
func Share(c *Comm, b []byte) {
	c.w.cq.LookElsewhere(nil)
	c.meet, c.w.shares = newMeeting(nil, b, c.rank, c.Size()), true
	c.w.cq.LookElsewhere(c.meet.look)
}

// JoinsInVain has c's rank not come to share memory, and reports whether the next job on its NIC can.
func JoinsInVain(c *Comm) bool {
	m := newMeeting(nil, make([]byte, meetingSize(2)), 0, 2)
	j := sharing{x: &coll{c: c}, m: m}
	c.w.cq.LookElsewhere(m.look)
	j.close()
	defer c.w.cq.LookElsewhere(nil)
	return c.w.cq.LookElsewhere(m.look)
}

// MeetingSize is the size in bytes of the memory for that many ranks.
func MeetingSize(ranks int) int { return meetingSize(ranks) }

// Posted reports whether a rank has posted for the latest call that used its slot.
func Posted(c *Comm) (calls int) {
	for _, o := range c.meet.own {
		if o.used {
			calls++
		}
	}
	return calls
}

// ForgetHost makes c's rank one that has not learned the host of another rank.
func ForgetHost(c *Comm, rank int) {
	hosts := slices.Clone(c.w.hosts) // several ranks share it
	c.w.hosts = hosts
	next := int32(-1) // the lowest rank that is left there
	for r, h := range hosts {
		if h == hosts[rank] && r != rank {
			if next < 0 {
				next = int32(r)
			}
			hosts[r] = next
		}
	}
	hosts[rank] = int32(rank)
}

// Selection returns the lines of the table of algorithms.
func Selection() (lines []string) {
	for _, c := range []struct {
		name  string
		rules []rule
	}{
		{"Barrier", barrierRules}, {"Bcast", bcastRules}, {"Reduce", reduceRules}, {"Allreduce", allreduceRules}, {"Gather, Scatter", gatherRules},
		{"Allgather", allgatherRules}, {"Alltoall", alltoallRules}, {"ReduceScatter", reduceScatterRules}, {"Scan, Exscan", scanRules},
	} {
		name := c.name
		for _, r := range c.rules {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("%-15s %-38s %s", name, r.String(), r.use), " "))
			name = ""
		}
	}
	return lines
}

// String describes the conditions: ">= 128 KiB, n >= 4".
func (r *rule) String() string {
	var all []string
	add := func(on bool, format string, args ...any) {
		if on {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(r.from > 0, ">= %s", sizeText(r.from))
	add(r.below > 0, "< %s", sizeText(r.below))
	add(r.ranks > 0, "n >= %d", r.ranks)
	add(r.under > 0, "n < %d", r.under)
	add(r.near, "shared memory")
	add(r.hosts && !r.mixed, "shared hosts")
	add(r.mixed, "mixed hosts")
	add(r.pow2, "n = 2^k")
	add(r.commutes, "commutative")
	add(r.split, "n elements")
	if len(all) == 0 {
		return "else"
	}
	return strings.Join(all, ", ")
}

func sizeText(n int) string {
	if n%(1<<10) == 0 {
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}

// FinishLate waits, as a collective does, for a receive from a rank and for a send that has failed with err, and is looked
// at after that receive.
func FinishLate(ctx context.Context, c *Comm, src int, err error) error {
	x, begun := c.begin(ctx, sign[byte](callAlltoall, 0, opNone, 0))
	if begun != nil {
		return begun
	}
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	c.reqs = make([]*request, 2*x.size)
	if c.reqs[src], begun = c.postRecv(nil, src, x.tag, x.s); begun != nil {
		return begun
	}
	send := w.request(c, nil, x.s)
	w.complete(send, err)
	c.reqs[len(c.reqs)-1] = send
	return x.finishAll(&parted{same: true}, nil)
}
