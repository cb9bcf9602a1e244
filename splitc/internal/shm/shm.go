// Package shm is Split-C's communication layer with shared memory: "the same with shared memory" of
// the paper (5.2). Between hosts it uses the layer over active messages. Ranks of one host map each
// other's heaps, and read and write them without messages. A store changes the heap and adds its
// bytes to a counter at the receiver that no other rank writes to, so that counting needs no lock.
// Procedures are sent through a queue to their owner, which the paper left open. Each pair of ranks
// has a queue with one producer and one consumer, and its owner runs the entries when it polls.
//
// Barriers, and most other collectives, meet in memory within a host: the lanes of the first rank's
// inbox are an array with a place for each other rank. Between hosts only the first ranks take
// part, in a tree. Collectives whose result depends on the order of ranks use another tree, which
// contains all ranks (package splitc, tree.go).
//
// Ranks with the same address on the segment are on one host. In the simulator each two consecutive
// ranks are a host, because the paper's nodes have two processors.
//
// # Trust
//
// A neighbour can write anything into this rank's heap and inbox at any time. This rank validates
// both as ring.go describes.
package shm

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/seam"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/am"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// Layer is layer.Layer over shared memory, and active messages.
type Layer struct {
	cfg   layer.Config
	far   *am.Layer
	count *layer.Counters // far's, with the operations of neighbours added
	own   *memory
	sleep *atomic.Uint64 // set while this rank sleeps
	hosts []int          // of the ranks
	near  []*neighbour   // by rank; nil for ranks of other hosts
	list  []*neighbour
	meet  meeting
	stats layer.Stats
	err   error
	entry entry
	ran   [layer.MaxCall]byte // result of the running procedure

	gathered [layer.MaxControl]byte // a message that is about to be sent
}

// neighbour is another rank of this host.
type neighbour struct {
	rank     int
	mem      *memory
	sleep    *atomic.Uint64 // set while it sleeps
	sent     *atomic.Uint64 // bytes that this rank has stored into its heap, for it to read
	stored   uint64         // the same, as this rank has counted
	came     *atomic.Uint64 // bytes that it has stored here
	taken    uint64         // those of them that have been counted
	requests ring
	results  ring
	served   ring // its requests
	returned ring // its results
	calls    [slots]waiting
	nudge    bool // it must be woken
}

// waiting is a call without a result.
type waiting struct {
	used   bool
	result []byte
}

// Open is layer.Open.
func Open(ctx context.Context, cfg layer.Config) (layer.Layer, error) {
	l := &Layer{cfg: cfg, hosts: Hosts(cfg.NIC, cfg.Member, cfg.Procs), near: make([]*neighbour, cfg.Procs)}
	if err := l.open(ctx); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

func (l *Layer) open(ctx context.Context) (err error) {
	if l.own, err = newMemory(l.cfg.HeapSize, l.cfg.Procs); err != nil {
		return err
	}
	l.sleep = word(l.own.inbox, 0)
	if l.meet, err = l.newMeeting(); err != nil {
		return err
	}
	far := l.cfg
	far.Heap = l.own.heap
	below, err := am.Open(ctx, far)
	if err != nil {
		return err
	}
	l.far = below.(*am.Layer)
	l.count = l.far.Counters()
	// All other ranks have announced themselves, so each neighbour can be joined.
	return l.meet.all(ctx, l)
}

// join makes a rank, whose memory is mapped, a neighbour.
func (l *Layer) join(rank int, mem *memory) {
	there, here := lane(mem.inbox, l.cfg.Rank), lane(l.own.inbox, rank)
	n := &neighbour{rank: rank, mem: mem, sleep: word(mem.inbox, 0), sent: word(there, 0), came: word(here, 0),
		requests: producer(there, 0), results: producer(there, 1), served: consumer(here, 0), returned: consumer(here, 1)}
	l.near[rank] = n
	l.list = append(l.list, n)
}

// Heap returns this rank's heap.
func (l *Layer) Heap() []byte { return l.own.heap }

// Direct returns a neighbour's heap, or nil for other ranks.
func (l *Layer) Direct(proc int) []byte {
	if n := l.near[proc]; n != nil {
		return n.mem.heap
	}
	return nil
}

// Counters returns the counters.
func (l *Layer) Counters() *layer.Counters { return l.count }

// Poll processes messages of neighbours and other ranks.
func (l *Layer) Poll() error {
	if err := l.far.Poll(); err != nil {
		return err
	}
	return l.serve()
}

// spins is how often a wait checks for messages before it sleeps.
const spins = 200

// Wait waits until something has arrived or ctx ends. A neighbour wakes a sleeping rank with an
// active message. A rank whose word was overwritten sleeps until the end of ctx.
func (l *Layer) Wait(ctx context.Context) error {
	if !seam.EngineOf(l.cfg.NIC).Virtual() && len(l.list) > 0 {
		for range spins {
			if l.some() {
				return l.Poll()
			}
		}
	}
	l.sleep.Store(1)
	if l.some() {
		l.sleep.Store(0)
		return l.Poll()
	}
	err := l.far.Wait(ctx)
	l.sleep.Store(0)
	if err != nil {
		return err
	}
	return l.serve()
}

// Flush flushes the messages to other hosts. Neighbours already have theirs.
func (l *Layer) Flush(ctx context.Context) error { return l.far.Flush(ctx) }

// Stats returns the counters.
func (l *Layer) Stats() layer.Stats {
	s := l.far.Stats()
	s.Requests, s.Replies, s.Direct = s.Requests+l.stats.Requests, s.Replies+l.stats.Replies, l.stats.Direct
	s.CreditWaits, s.CreditTime, s.Strays = s.CreditWaits+l.stats.CreditWaits, s.CreditTime+l.stats.CreditTime, s.Strays+l.stats.Strays
	return s
}

// Close ends the layer below, and releases everything.
func (l *Layer) Close() {
	if l.far != nil {
		l.far.Close()
	}
	if l.meet != nil {
		l.meet.close()
	}
	for _, n := range l.list {
		n.mem.free()
	}
	l.own.free()
	l.own, l.list = nil, nil
}

// blame makes a neighbour's fault the failure, unless there is one already.
func (l *Layer) blame(n *neighbour, err error) error {
	if l.err == nil {
		l.err = &job.RankError{Rank: n.rank, Err: err}
	}
	return l.err
}

var (
	_ layer.Layer    = (*Layer)(nil)
	_ layer.Gatherer = (*Layer)(nil)
)

// meeting is the exchange of files between neighbours. It starts before a rank announces itself, so
// that a process that has heard of all ranks finds their memory.
type meeting interface {
	// all joins all neighbours.
	all(ctx context.Context, l *Layer) error
	close()
}

// place is the address of a rank's memory.
type place struct {
	nonce      uint64
	generation int
	rank       int
}

func (l *Layer) place(rank int) place {
	return place{l.cfg.Member.Identity().Nonce, l.cfg.Generation, rank}
}

// Simulated returns the host of a rank in the simulator. Tests replace it.
var Simulated = Pairs

// Pairs puts each two consecutive ranks on a host, because the paper's nodes have two processors.
func Pairs(rank int) int { return rank / 2 }

// Hosts returns the host of each rank: a number that ranks with shared memory have in common. These
// are ranks with the same address on the segment, and in the simulator as Simulated determines.
func Hosts(nic *vipl.NIC, member *job.Member, procs int) []int {
	hosts := make([]int, procs)
	me := member.Identity().Rank
	byMAC := map[ethertype.MAC]int{}
	for rank := range hosts {
		if seam.EngineOf(nic).Virtual() {
			hosts[rank] = Simulated(rank)
			continue
		}
		mac := nic.Addr().MAC
		if rank != me {
			mac = member.Addr(rank).MAC
		}
		if _, known := byMAC[mac]; !known {
			byMAC[mac] = rank
		}
		hosts[rank] = byMAC[mac]
	}
	return hosts
}

// others returns the other ranks of this rank's host.
func (l *Layer) others() (ranks []int) {
	for rank, host := range l.hosts {
		if rank != l.cfg.Rank && host == l.hosts[l.cfg.Rank] {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (l *Layer) newMeeting() (meeting, error) {
	if seam.EngineOf(l.cfg.NIC).Virtual() {
		return newInProcess(l), nil
	}
	s, err := newSockets(l.secret(), l.cfg.Rank)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// inProcess is the meeting of ranks that are simulated in one process.
type inProcess struct{ at place }

var simulated struct {
	sync.Mutex
	files map[place]int
}

func newInProcess(l *Layer) inProcess {
	m := inProcess{l.place(l.cfg.Rank)}
	simulated.Lock()
	defer simulated.Unlock()
	if simulated.files == nil {
		simulated.files = map[place]int{}
	}
	simulated.files[m.at] = l.own.fd
	return m
}

func (inProcess) all(_ context.Context, l *Layer) error {
	for _, rank := range l.others() {
		mem, err := l.simulatedMemory(rank)
		if err != nil {
			return fmt.Errorf("rank %d: %w", rank, err)
		}
		l.join(rank, mem)
	}
	return nil
}

// simulatedMemory maps the memory of a rank, which has started and may have ended again.
func (l *Layer) simulatedMemory(rank int) (*memory, error) {
	simulated.Lock()
	defer simulated.Unlock()
	fd, ok := simulated.files[l.place(rank)]
	if !ok {
		return nil, unix.ENOENT
	}
	return mapMemory(fd, l.cfg.HeapSize, l.cfg.Procs)
}

func (m inProcess) close() {
	simulated.Lock()
	defer simulated.Unlock()
	delete(simulated.files, m.at)
}
