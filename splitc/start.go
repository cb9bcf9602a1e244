package splitc

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"sync"
	"time"

	"github.com/bobnet-go/bobnet/internal/joining"
	"github.com/bobnet-go/bobnet/internal/logqueue"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
	"github.com/bobnet-go/bobnet/vipl"
)

// version is the version of the protocol between processes, that of package job included.
const version = 7

// logFlush is how long the end waits for the logger's handler to finish the last lines.
const logFlush = 100 * time.Millisecond

// Start makes this process one of the program that cfg and the environment
// describe (nil: the environment alone), and returns when all processes are connected. After
// cfg.Timeout it fails with an error that names the missing processes. It fails at once with
// a job.RankError if one of them fails, and with ErrUnequal if processes have different
// layers, heaps, registered variables or procedures, or versions of this package. End with
// Exit or Close: a process that ends without them counts as dead. Open is the same function.
func Start(ctx context.Context, cfg *Config) (*World, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	if cfg.Size == 0 && cfg.Member == nil {
		joining.SayAlone("splitc")
	}
	c, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	w := &World{cfg: c, log: c.Logger, me: c.Rank, procs: c.Size, nic: c.NIC, member: c.Member}
	w.landing = new([len(w.small)]uint64)
	w.atomics.result = new([layer.MaxCall]byte)
	w.sent, w.direct, w.tree = make([]uint64, w.procs), make([][]byte, w.procs), newTree(w.me, w.procs, nil)
	if w.layout, err = newLayout(); err != nil {
		return nil, err
	}
	if w.layout.end > uint64(c.HeapSize) {
		return nil, opError("start", ErrMemory, "the registered variables end at %#x, beyond the heap of %#x bytes", w.layout.end, c.HeapSize)
	}
	if err := w.open(ctx); err != nil {
		w.end(err)
		return nil, err
	}
	return w, nil
}

// Open is another name of Start, for consistency with the other packages.
func Open(ctx context.Context, cfg *Config) (*World, error) { return Start(ctx, cfg) }

// open joins the job, opens the layer, and initializes the heap.
func (w *World) open(ctx context.Context) (err error) {
	if w.procs == 1 {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("splitc: start: %w", err)
		}
		if w.layer, err = newAlone(w.cfg.HeapSize); err != nil {
			return err
		}
	} else {
		if err := w.join(ctx); err != nil {
			return err
		}
		timed, cancel := w.nic.WithTimeout(ctx, w.cfg.Timeout)
		defer cancel()
		w.watch = layer.NewWatch(w.nic, w.member, w.cfg.WaitTimeout)
		w.watch.Tell(observer{w})
		w.generation = w.nextGeneration()
		if !w.joined { // a rank that has joined here has already compared
			withdraw, err := w.agree(timed)
			defer withdraw()
			if err != nil {
				return err
			}
		}
		w.tree = newTree(w.me, w.procs, w.hosts())
		w.layer, err = layers[w.cfg.Layer](timed, layer.Config{Member: w.member, NIC: w.nic, Card: w.cfg.Card, Rank: w.me, Procs: w.procs, Generation: w.generation, HeapSize: w.cfg.HeapSize,
			Handler: upper{w}, Watch: w.watch, Timeout: w.cfg.Timeout, PeerTimeout: cmp.Or(w.cfg.PeerTimeout, vipl.DefaultPeerTimeout), Logger: w.log})
		if err != nil {
			return fmt.Errorf("splitc: start: layer %s: %w", w.cfg.Layer, err)
		}
		ctx = timed
	}
	w.count, w.heap = w.layer.Counters(), w.layer.Heap()
	w.gather, _ = w.layer.(layer.Gatherer)
	for i := range w.direct {
		if w.direct[i] = w.heap; i != w.me {
			w.direct[i] = w.layer.Direct(i)
		}
	}
	w.spans = spans{size: uint64(len(w.heap)), high: w.layout.end}
	if w.layout.end > firstStatic {
		w.spans.live = []span{{firstStatic, w.layout.end}}
	}
	err = w.meet(ctx, call{code: codeStart, size: uint64(w.cfg.HeapSize), op: w.sameness()})
	var m *MismatchError
	if errors.As(err, &m) && m.inStart() { // other ranks may be further, and detect the difference there
		return fmt.Errorf("%w: the size of the heap, the registrations, or the version differ: %w", ErrUnequal, err)
	}
	return err
}

// generations counts the programs that ranks have started as members of a run which several
// packages share.
var generations struct {
	sync.Mutex
	begun map[[2]uint64]int // by nonce and rank
}

// nextGeneration returns how many programs this rank has started before as the same member.
func (w *World) nextGeneration() int {
	if w.cfg.Member == nil {
		return 0
	}
	generations.Lock()
	defer generations.Unlock()
	if generations.begun == nil {
		generations.begun = map[[2]uint64]int{}
	}
	key := [2]uint64{w.member.Identity().Nonce, uint64(w.me)}
	generations.begun[key]++
	return generations.begun[key] - 1
}

// sameness returns a number that must be equal in all processes of a program.
func (w *World) sameness() uint32 {
	h := fnv.New32a()
	one := [2]byte{1}
	fmt.Fprint(h, version, w.cfg.Layer, w.layout.hash, binary.NativeEndian.Uint16(one[:]), size[int]())
	return h.Sum32()
}

// join joins the job, unless the caller is already a member.
func (w *World) join(ctx context.Context) (err error) {
	if w.member != nil {
		return nil
	}
	rank := w.cfg.Config
	if w.nic, w.own, err = joining.OpenNIC(ctx, &rank); err != nil {
		return fmt.Errorf("splitc: start: %w", err)
	}
	rank.NIC = w.nic
	params := w.params()
	w.member, err = job.Open(ctx, &rank, job.Program{Name: "Split-C", Version: version, Params: params})
	switch {
	case errors.Is(err, job.ErrVersion):
		return fmt.Errorf("%w: start: %w", ErrUnequal, err)
	case err != nil:
		return fmt.Errorf("splitc: start: %w", err)
	}
	w.joined = true
	for proc := range w.procs {
		if proc == w.me {
			continue
		}
		other := w.member.Params(proc)
		heap, chosen := ofParams(other)
		switch {
		case chosen != w.cfg.Layer:
			return w.otherLayer(proc, chosen)
		case heap != w.cfg.HeapSize:
			return opError("start", ErrUnequal, "rank %d has a heap of %d bytes, rank %d a heap of %d", w.me, w.cfg.HeapSize, proc, heap)
		case other[1] != params[1]:
			return opError("start", ErrUnequal, "rank %d and rank %d differ in their registrations or their architecture", w.me, proc)
		}
	}
	return nil
}

// layerShift is the position of the layer's number in the first value of params. The size of the
// heap in pages is below. Processes of one version have the same layers, and so the same numbers.
const layerShift = 26

// params returns the values that this process publishes when it joins the job.
func (w *World) params() [2]uint32 {
	return [2]uint32{uint32(slices.Index(Layers(), w.cfg.Layer))<<layerShift | uint32(w.cfg.HeapSize/4096), w.sameness()}
}

// ofParams returns the heap's size and the name of the layer in params.
func ofParams(params [2]uint32) (heap int, chosen string) {
	chosen = "unknown to this rank"
	if n := int(params[0] >> layerShift); n < len(layers) {
		chosen = Layers()[n]
	}
	return int(params[0]%(1<<layerShift)) * 4096, chosen
}

// otherLayer returns the error of a start in which a rank has another layer than this one.
func (w *World) otherLayer(rank int, chosen string) error {
	return opError("start", ErrUnequal, "rank %d has layer %s, and rank %d has layer %s", w.me, w.cfg.Layer, rank, chosen)
}

// Exit ends the program for this process (splitc_exit). It completes this process's gets and puts,
// and waits until all others have called Exit, bounded by ctx and Config.WaitTimeout. Then it
// releases everything: slices of the heap must not be used any more. If the program has failed,
// Exit notifies the others and returns the failure at once.
func (w *World) Exit(ctx context.Context) error {
	if w.stop == ErrClosed || w.stop == ErrInAtomic {
		return w.stopped("exit")
	}
	err := w.stop
	if err == nil && w.procs > 1 {
		err = w.leave(ctx)
	}
	return w.end(err)
}

// Close ends the program for this process, like Exit with a context that never ends. After Exit,
// Fail or Close it does nothing.
func (w *World) Close() error {
	if w.stop == ErrClosed {
		return nil
	}
	return w.Exit(context.Background())
}

// Fail ends the program for this process because of err, and notifies the others. Their operations
// end with a job.RankError that names this process and contains err's text. In an atomic procedure
// it takes effect when the procedure returns: all later calls of this process return the failure,
// and Exit or Fail notifies the others and releases everything.
func (w *World) Fail(err error) {
	if err == nil {
		err = errors.New("no reason given")
	}
	if w.stop == nil || !errors.Is(err, w.stop) { // otherwise it is the error that a call has returned
		err = fmt.Errorf("splitc: Fail was called: %w", err)
	}
	switch {
	case w.stop == ErrClosed:
	case w.stop != ErrInAtomic:
		w.end(err)
	case w.atomics.failed == nil: // the layer is in a call, and the procedure in the heap
		w.atomics.failed = err
	}
}

// leave waits for all others to leave.
func (w *World) leave(ctx context.Context) error {
	var stored [8]byte
	for i := range w.procs - 1 {
		to := (w.me + 1 + i) % w.procs
		binary.LittleEndian.PutUint64(stored[:], w.sent[to])
		if err := w.heard(w.say(ctx, to, kindLeaving, call{}, stored[:])); err != nil {
			return err
		}
	}
	if err := w.sync(ctx, Waiting{What: "exit"}); err != nil {
		return err
	}
	if err := w.meet(ctx, call{code: codeExit}); err != nil {
		return err
	}
	if err := w.layer.Flush(ctx); err != nil || !w.joined {
		return err
	}
	w.joined = false
	return w.member.Leave(ctx)
}

// end releases everything. If err is not nil, it notifies the others.
func (w *World) end(err error) error {
	w.publish()
	if w.joined {
		w.member.Fail(err)
		w.joined = false
	}
	w.stop = ErrClosed
	w.spans = spans{}
	w.heap, w.direct = nil, make([][]byte, w.procs)
	if w.layer != nil {
		w.layer.Close()
	}
	if w.watch != nil {
		w.watch.End()
	}
	if w.own {
		w.nic.Close()
	}
	logqueue.New(w.log).Flush(logFlush)
	return err
}

// A rank that shares its membership with other packages has not published its layer when it joined.
// It would look for the other ranks in its own layer, and would not find ranks that have chosen
// another one. So before it opens its layer, it advertises a name that contains the layer, and
// looks for the names of all others.

// saidBy returns the name under which a rank publishes what to the ranks that start with it.
func (w *World) saidBy(rank int, what string) string {
	return fmt.Sprintf("splitc/start/%016x/%d/%d/%s", w.member.Identity().Nonce, w.generation, rank, what)
}

// known is published by a rank that knows the layers of all others.
const known = "known"

// agree returns nil if all ranks have this rank's layer, and ErrUnequal if one has not. The caller
// calls withdraw after all ranks have opened their layers.
func (w *World) agree(ctx context.Context) (withdraw func(), err error) {
	own := w.saidBy(w.me, w.cfg.Layer)
	withdraw = func() { w.nic.Withdraw(own) }
	if err := w.nic.Advertise(own, w.nic.Addr()); err != nil {
		return withdraw, fmt.Errorf("splitc: start: %w", err)
	}
	w.watch.Begin()
	chosen := make([]string, w.procs)
	for i := 1; i < w.procs; i++ {
		rank := (w.me + i) % w.procs
		var late error
		chosen[rank], late = w.layerOf(ctx, rank)
		switch {
		case late != nil && err == nil:
			return withdraw, fmt.Errorf("splitc: start: rank %d does not publish its layer: %w", rank, late)
		case late != nil:
			return withdraw, err
		case chosen[rank] != w.cfg.Layer && err == nil:
			err = w.otherLayer(rank, chosen[rank])
		}
	}
	if err != nil {
		w.awaitKnown(ctx, chosen)
	}
	return withdraw, err
}

// layerOf returns the layer that a rank has chosen. It queries this rank's own layer more often
// than the others, because the answer is nearly always that one.
func (w *World) layerOf(ctx context.Context, rank int) (string, error) {
	for {
		for _, other := range Layers() {
			for _, l := range [2]string{w.cfg.Layer, other} {
				if said, err := w.says(rank, l); said || err != nil {
					return l, err
				}
				if err := w.watch.Check(ctx); err != nil {
					return "", err
				}
			}
		}
	}
}

// says reports whether a rank answers, within this slice, that it has published the name for what.
func (w *World) says(rank int, what string) (bool, error) {
	_, err := w.nic.LookupAt(w.watch.Slice(), w.member.Addr(rank), w.saidBy(rank, what))
	if errors.Is(err, vipl.ErrNameService) { // no answer
		return false, nil
	}
	return err == nil, err
}

// silence is the number of slices without any answer after which a rank counts as having withdrawn
// its names.
const silence = 5

// awaitKnown is called if ranks have chosen different layers. It waits until all others know this:
// they have published known, or have ended their start without waiting for this rank. Until then
// this rank's layer can be queried.
func (w *World) awaitKnown(ctx context.Context, chosen []string) {
	own := w.saidBy(w.me, known)
	if w.nic.Advertise(own, w.nic.Addr()) != nil {
		return
	}
	defer w.nic.Withdraw(own)
	for i := 1; i < w.procs; i++ {
		rank := (w.me + i) % w.procs
		for silent := 0; silent < silence; {
			knows, err := w.says(rank, known)
			if err != nil || w.watch.Check(ctx) != nil {
				return
			}
			if knows {
				break
			}
			silent++
			if starts, _ := w.says(rank, chosen[rank]); starts {
				silent = 0
			}
		}
	}
}
