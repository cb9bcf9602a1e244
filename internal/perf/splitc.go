package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc"
	"github.com/bobnet-go/bobnet/vipl"
)

// The primitives are kinds of cases. If twoWay follows the name, both halves execute the operation
// at the same time. Otherwise the other half only serves.
const (
	splitRead  = "read"  // blocking
	splitWrite = "write" // blocking
	splitGet   = "get"
	splitPut   = "put"
	splitStore = "store"
	twoWay     = " two-way"
)

// splitFinalizeTime limits the end of the program, which waits for the other process.
const splitFinalizeTime = time.Second

// splitStack is a Split-C program of two processes. The mode of a case is its layer.
type splitStack struct{}

// Cases implements Stack. LogP is measured for operations that fit in one message of each layer.
func (splitStack) Cases(p *Plan, test string, mtu, size int) (cases []Case) {
	if test == LogP && amKind(size) == kindBulk {
		return nil
	}
	kinds := []string{""}
	switch test {
	case Primitives, Bulk:
		kinds = slices.Clone(primitives)
	case LogP:
		kinds = []string{splitPut, splitStore}
	}
	if test == Primitives || test == Bulk {
		for _, kind := range slices.Clone(kinds) {
			kinds = append(kinds, kind+twoWay)
		}
	}
	for _, link := range p.Links {
		for _, wait := range p.Waits {
			for _, layer := range p.Layers {
				for _, kind := range kinds {
					cases = append(cases, Case{Stack: "splitc", Test: test, Wait: wait, Link: link, Mode: layer, Kind: kind, MTU: mtu, Size: size})
				}
			}
		}
	}
	return cases
}

// splitConn is one of the two processes: the client is 0, the server 1. Each has an array of the
// messages that a stream has in flight, to which the other puts and stores. A second array is the
// source of sent and the destination of received messages.
type splitConn struct {
	nic    *vipl.NIC
	w      *splitc.World
	forget func()
	test   string
	kind   string
	both   bool // both halves execute the operations at the same time
	size   int
	n      int                   // number of messages in an array
	at     splitc.Global[byte]   // the other's array
	marker splitc.Global[uint64] // word of the other process that marks the end of a stream
	mine   []byte                // source of sent data and destination of fetched data
	next   int                   // in the arrays
	value  int32
	pause  func(ns int64) (took int64)
}

// Open is part of Stack.
func (splitStack) Open(ctx context.Context, h *Half, c Case) (Conn, error) {
	nic, err := h.openNIC(ctx, c)
	if err != nil {
		return nil, err
	}
	s, err := newSplitConn(ctx, h, nic, c)
	if err != nil {
		return nil, errors.Join(err, nic.Close())
	}
	return s, nil
}

// newSplitConn creates an end on a NIC. If there is no error, the end owns the NIC.
func newSplitConn(ctx context.Context, h *Half, nic *vipl.NIC, c Case) (s *splitConn, err error) {
	s = &splitConn{nic: nic, test: c.Test, kind: strings.TrimSuffix(c.Kind, twoWay), both: strings.HasSuffix(c.Kind, twoWay), size: max(c.Size, 1)}
	s.pause = func(ns int64) int64 { return pause(nic.Now, ns) }
	if s.w, err = startSplit(ctx, h, nic, c); err != nil {
		return nil, err
	}
	if err := s.allocate(ctx); err != nil {
		s.w.Fail(err)
		return nil, err
	}
	s.forget = h.watch(Opened{NIC: nic, World: s.w})
	return s, nil
}

// startSplit starts the program. The program's name contains the server's address, which makes it
// unique.
func startSplit(ctx context.Context, h *Half, nic *vipl.NIC, c Case) (*splitc.World, error) {
	addr, err := h.Exchange(nic.Addr().String())
	if err != nil {
		return nil, err
	}
	rank := 0
	if h.server {
		rank, addr = 1, nic.Addr().String()
	}
	return splitc.Start(ctx, &splitc.Config{Config: job.Config{Job: "perf-" + addr, Rank: rank, Size: 2, NIC: nic, Timeout: sampleTimeout}, Layer: c.Mode,
		HeapSize: heapFor(c.Size), WaitTimeout: 2 * sampleTimeout})
}

// heapFor returns the size of a heap for two arrays of messages.
func heapFor(size int) int {
	const page, scratch = 4096, 1 << 17
	return (2*outstanding(size)*size + scratch + 16*page) / page * page
}

func (s *splitConn) allocate(ctx context.Context) error {
	s.n = min(outstanding(s.size), vipl.DefaultQueueDepth) // as many messages as for vipl, so that both stacks use the same amount of memory
	peer := 1 - s.w.MyProc()
	to, err := splitc.AllSpreadMalloc[byte](ctx, s.w, 2, s.n*s.size)
	if err != nil {
		return err
	}
	from, err := splitc.AllSpreadMalloc[byte](ctx, s.w, 2, s.n*s.size)
	if err != nil {
		return err
	}
	ends, err := splitc.AllSpreadMalloc[uint64](ctx, s.w, 2, 1)
	if err != nil {
		return err
	}
	s.at, s.marker, s.mine = to.On(peer), ends.On(peer), from.Local(s.w)
	occupy(s.mine)
	occupy(to.Local(s.w))
	return nil
}

// place returns the place of the next message in the other process's array and in this process's
// array.
func (s *splitConn) place() (splitc.Global[byte], []byte) {
	i := s.next * s.size
	if s.next++; s.next == s.n {
		s.next = 0
	}
	return s.at.Add(i), s.mine[i:][:s.size]
}

// PingPong implements Conn by stores in both directions, blocking reads, or barriers.
func (s *splitConn) PingPong(ctx context.Context, rtt []int64) error {
	if s.test == Barrier {
		return barriers(ctx, s.nic.Now, s.w.Barrier, rtt)
	}
	at, mine := s.place()
	last := s.nic.Now()
	for i := range rtt {
		var err error
		if s.test == Read {
			err = splitc.BulkRead(ctx, s.w, mine, at)
		} else if err = splitc.BulkStore(ctx, s.w, at, mine); err == nil {
			err = s.w.StoreSync(ctx, s.size)
		}
		if err != nil {
			return err
		}
		now := s.nic.Now()
		rtt[i] = now - last
		last = now
	}
	if s.test == Read {
		return s.tell(ctx)
	}
	return nil
}

// Echo is part of Conn.
func (s *splitConn) Echo(ctx context.Context, n int) error {
	if s.test == Barrier {
		return barriers(ctx, s.nic.Now, s.w.Barrier, make([]int64, n))
	}
	if s.test == Read {
		return s.w.StoreSync(ctx, 8)
	}
	at, mine := s.place()
	for range n {
		if err := s.w.StoreSync(ctx, s.size); err != nil {
			return err
		}
		if err := splitc.BulkStore(ctx, s.w, at, mine); err != nil {
			return err
		}
	}
	return nil
}

// tell stores a word at the other half, which tells it that this half is done.
func (s *splitConn) tell(ctx context.Context) error { return splitc.Store(ctx, s.w, s.marker, 1) }

// Stream implements Conn. If both halves send, the messages of both count.
func (s *splitConn) Stream(ctx context.Context, n int) (int, error) {
	if err := s.all(ctx, n); err != nil {
		return 0, err
	}
	if err := s.tell(ctx); err != nil {
		return 0, err
	}
	if s.both {
		return n, s.w.StoreSync(ctx, s.stored(n)+8)
	}
	return n, s.w.StoreSync(ctx, 8)
}

// Sink is part of Conn.
func (s *splitConn) Sink(ctx context.Context, n int) error {
	if s.both {
		_, err := s.Stream(ctx, n)
		return err
	}
	if s.test == LogP {
		return s.answer(ctx, n)
	}
	if err := s.w.StoreSync(ctx, s.stored(n)+8); err != nil {
		return err
	}
	return s.tell(ctx)
}

// stored returns the number of bytes that the other half stores in a stream of n messages.
func (s *splitConn) stored(n int) int {
	if s.stores() {
		return n * s.size
	}
	return 0
}

func (s *splitConn) stores() bool { return s.kind == splitStore || s.kind == "" && s.test != Write }

// all executes a stream's operations, and completes them as far as this half can.
func (s *splitConn) all(ctx context.Context, n int) error {
	do := s.bulk
	if s.test == Primitives {
		do = s.primitive
	}
	for range n {
		at, mine := s.place()
		if err := do(ctx, at, mine); err != nil {
			return err
		}
	}
	return s.w.Sync(ctx)
}

// bulk executes an operation of any length.
func (s *splitConn) bulk(ctx context.Context, at splitc.Global[byte], mine []byte) error {
	switch {
	case s.stores():
		return splitc.BulkStore(ctx, s.w, at, mine)
	case s.kind == splitRead:
		return splitc.BulkRead(ctx, s.w, mine, at)
	case s.kind == splitWrite:
		return splitc.BulkWrite(ctx, s.w, at, mine)
	case s.kind == splitGet:
		return splitc.BulkGet(ctx, s.w, mine, at)
	}
	return splitc.BulkPut(ctx, s.w, at, mine)
}

// primitive executes an operation on an int, which has four bytes as in the paper.
func (s *splitConn) primitive(ctx context.Context, at splitc.Global[byte], _ []byte) (err error) {
	p := splitc.Cast[int32](at)
	switch s.kind {
	case splitRead:
		_, err = splitc.Read(ctx, s.w, p)
	case splitWrite:
		err = splitc.Write(ctx, s.w, p, 1)
	case splitGet:
		err = splitc.Get(ctx, s.w, &s.value, p)
	case splitPut:
		err = splitc.Put(ctx, s.w, p, 1)
	case splitStore:
		err = splitc.Store(ctx, s.w, p, 1)
	default:
		err = fmt.Errorf("perf: splitc has no primitive %q", s.kind)
	}
	return err
}

// Counters is part of Conn.
func (s *splitConn) Counters() Counters { return nicCounters(s.nic) }

// Close is part of Conn.
func (s *splitConn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), splitFinalizeTime)
	defer cancel()
	s.forget()
	return errors.Join(s.w.Exit(ctx), s.nic.Close())
}

// Bursts implements burster. A request is a put, which the other process's layer answers, or a
// store. A store has no reply, so the other process answers with a store of its own. Unlike a
// request of active messages, neither call polls. So this process polls after each pause, as
// programs that compute do. The time of a poll that finds an answer is the overhead of receiving
// it.
func (s *splitConn) Bursts(ctx context.Context, all []burst, note func(b burst, sent, answered int64)) error {
	err := eachBurst(all, func() { s.pause(int64(sweepRest)) }, func(n int, ns int64) (sent, answered int64, err error) {
		return s.burst(ctx, n, ns)
	}, note)
	if err != nil || s.stores() {
		return err
	}
	return s.tell(ctx)
}

// burst sends n requests with pauses.
func (s *splitConn) burst(ctx context.Context, n int, ns int64) (sent, answered int64, err error) {
	start, over := s.nic.Now(), int64(0)
	for range n {
		at, mine := s.place()
		if err := s.bulk(ctx, at, mine); err != nil {
			return 0, 0, err
		}
		if ns == 0 {
			continue
		}
		over += s.pause(ns) - ns
		if err := s.w.Poll(); err != nil {
			return 0, 0, err
		}
	}
	sent = s.nic.Now() - start - over
	if err = s.w.Sync(ctx); err == nil && s.stores() {
		err = s.w.StoreSync(ctx, n*s.size)
	}
	return sent, s.nic.Now() - start, err
}

// answer is the other process's part of n requests.
func (s *splitConn) answer(ctx context.Context, n int) error {
	if !s.stores() {
		return s.w.StoreSync(ctx, 8)
	}
	for range n {
		if err := s.w.StoreSync(ctx, s.size); err != nil {
			return err
		}
		at, mine := s.place()
		if err := splitc.BulkStore(ctx, s.w, at, mine); err != nil {
			return err
		}
	}
	return s.w.Poll() // a poll sends stores that wait to share a message
}
