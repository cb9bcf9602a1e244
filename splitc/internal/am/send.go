package am

import (
	"context"
	"encoding/binary"
	"errors"

	"github.com/bobnet-go/bobnet/endpoint"
	"github.com/bobnet-go/bobnet/job"
	"github.com/bobnet-go/bobnet/splitc/internal/layer"
)

// shortWords is the number of words of data in a short message, in addition to its other arguments,
// and shortBytes the number of bytes.
const (
	shortWords = endpoint.MaxShort - 4
	shortBytes = 4 * shortWords
)

// segment is the most bytes of a bulk operation in one medium message.
const segment = endpoint.DefaultMaxMedium

// Get starts to read from a heap. It sends a request for each segment, and the reply carries the
// data.
func (l *Layer) Get(ctx context.Context, proc int, dst []byte, off uint64) error {
	i := l.ops.begin(&l.count, opGet, proc, dst, pieces(len(dst)))
	for at := 0; at < len(dst); at += segment {
		from := off + uint64(at)
		n := min(segment, len(dst)-at)
		if err := l.sent(i, l.request(ctx, proc, hGet, nil, i, uint32(at/segment), uint32(from), uint32(from>>32), uint32(n))); err != nil {
			l.ops.abandon(&l.count, i, pieces(len(dst)-at))
			return err
		}
	}
	return nil
}

// Put starts to write to a heap. It sends a request for each segment, and the reply reports its
// completion.
func (l *Layer) Put(ctx context.Context, proc int, off uint64, src []byte) error {
	i := l.ops.begin(&l.count, opPut, proc, nil, pieces(len(src)))
	for at := 0; at < len(src); at += segment {
		part := src[at:min(at+segment, len(src))]
		if err := l.sent(i, l.write(ctx, proc, hPut, hPutMedium, i, off+uint64(at), part)); err != nil {
			l.ops.abandon(&l.count, i, pieces(len(src)-at))
			return err
		}
	}
	return nil
}

// Store starts to write to a heap, where the bytes are counted. The replies have no effect.
func (l *Layer) Store(ctx context.Context, proc int, off uint64, src []byte) error {
	for at := 0; at < len(src); at += segment {
		if err := l.write(ctx, proc, hStore, hStoreMedium, 0, off+uint64(at), src[at:min(at+segment, len(src))]); err != nil {
			return err
		}
	}
	return nil
}

// write sends a request with data for a heap, which is short if the data fit into its arguments.
func (l *Layer) write(ctx context.Context, proc int, short, medium uint8, i uint32, off uint64, data []byte) error {
	if len(data) > shortBytes {
		return l.request(ctx, proc, medium, data, i, uint32(off), uint32(off>>32))
	}
	w := &l.words
	w[0], w[1], w[2], w[3] = i, uint32(off), uint32(off>>32), uint32(len(data))
	return l.request(ctx, proc, short, nil, w[:4+l.pack(w[4:], data)]...)
}

// Call starts to run a procedure; the reply carries its result.
func (l *Layer) Call(ctx context.Context, proc int, fn uint32, args, result []byte) error {
	i := l.ops.begin(&l.count, opCall, proc, result, 1)
	err := l.sent(i, l.request(ctx, proc, hCall, args, i, fn, uint32(l.cfg.Rank)))
	if err != nil {
		l.ops.abandon(&l.count, i, 1)
	}
	return err
}

// errUnanswered is the failure of a rank that answers requests with anything except their replies,
// so that the credits return while the operations stay incomplete.
var errUnanswered = errors.New("it returned the credits of gets, puts or calls without answering them")

// sent records that a request of an operation was sent, unless err is not nil. Each unanswered
// request occupies a credit, so more of them than credits is an error of the other rank.
func (l *Layer) sent(i uint32, err error) error {
	if err != nil {
		return err
	}
	if proc := l.ops.asked(i); l.ops.due[proc] > allCredits && l.err == nil {
		l.err = &job.RankError{Rank: proc, Err: errUnanswered}
	}
	return l.err
}

// credits are the credits of each rank, and allCredits their sum.
var (
	credits    = endpoint.AMVIACredits
	allCredits = credits.Short + credits.Medium + credits.Bulk
)

// Nudge ends a wait of a rank, if it is in one. It reports whether there was a credit for it; it
// does not wait for one.
func (l *Layer) Nudge(proc int) (sent bool, err error) {
	err = l.ep.Request(over, proc, hNudge)
	if errors.Is(err, context.Canceled) {
		return false, l.err
	}
	return err == nil, l.failure(err)
}

// over is a context that has ended.
var over = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// request sends a request, which is medium if it has data. It waits for a credit in slices. The
// endpoint counts the time.
func (l *Layer) request(ctx context.Context, proc int, handler uint8, data []byte, args ...uint32) error {
	err := l.send(proc, handler, data, args)
	if !l.late(err) {
		return l.failure(err)
	}
	wait := l.cfg.Watch.Stall(proc, nil)
	defer wait.End()
	for ; l.late(err); err = l.send(proc, handler, data, args) {
		if err := wait.Check(ctx); err != nil {
			return err
		}
	}
	return l.failure(err)
}

// send is request for one slice.
func (l *Layer) send(proc int, handler uint8, data []byte, args []uint32) error {
	slice := l.cfg.Watch.Slice()
	if data != nil {
		return l.ep.RequestMedium(slice, proc, handler, data, args...)
	}
	return l.ep.Request(slice, proc, handler, args...)
}

// late reports whether a slice has ended without a credit.
func (l *Layer) late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) && l.err == nil
}

// pack packs bytes into words, and returns the number of words.
func (l *Layer) pack(words []uint32, data []byte) int {
	if len(data) == 4 {
		words[0] = binary.LittleEndian.Uint32(data)
		return 1
	}
	n := (len(data) + 3) / 4
	clear(l.packed[:4*n])
	copy(l.packed[:], data)
	for i := range n {
		words[i] = binary.LittleEndian.Uint32(l.packed[4*i:])
	}
	return n
}

// unpack fills dst from words, which must hold enough bytes.
func unpack(dst []byte, words []uint32) {
	for ; len(dst) >= 4; dst, words = dst[4:], words[1:] {
		binary.LittleEndian.PutUint32(dst, words[0])
	}
	if len(dst) > 0 {
		var last [4]byte
		binary.LittleEndian.PutUint32(last[:], words[0])
		copy(dst, last[:])
	}
}

// pieces returns the number of segments in n bytes.
func pieces(n int) int { return (n + segment - 1) / segment }

var (
	_ layer.Layer    = (*Layer)(nil)
	_ layer.Gatherer = (*Layer)(nil)
)

// Kinds of operations that wait for replies.
const (
	opNone = iota
	opGet
	opPut
	opCall
)

// operation is an incomplete get, put or call.
type operation struct {
	kind uint8
	proc int
	dst  []byte // of a get or call
	left int    // replies that have not arrived
	due  int    // those of them whose requests were sent
	use  uint32 // how often the place was used, which distinguishes a late reply from a new one
}

// operations are a rank's incomplete operations. A reply identifies its operation by place and use.
type operations struct {
	all  []operation
	free []uint32
	due  []int // sent requests without a reply, by rank
}

// placeBits is the number of bits of an operation's number for its place. The other bits are for
// its use.
const placeBits = 20

// place returns the place in a number.
func place(number uint32) int { return int(number & (1<<placeBits - 1)) }

// begin adds an operation that waits for left replies, and returns its number.
func (o *operations) begin(c *layer.Counters, kind uint8, proc int, dst []byte, left int) uint32 {
	if len(o.free) == 0 {
		o.grow()
	}
	i := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	op := &o.all[i]
	op.kind, op.proc, op.dst, op.left, op.due = kind, proc, dst, left, 0
	op.use++
	c.Outstanding++
	return i | op.use<<placeBits
}

// grow adds places. There are fewer operations than credits, because each request in flight
// occupies one (Layer.sent).
func (o *operations) grow() {
	old := len(o.all)
	o.all = append(o.all, make([]operation, max(64, old))...)
	for i := len(o.all) - 1; i >= old; i-- {
		o.free = append(o.free, uint32(i))
	}
}

// asked records that a request of an operation was sent, and returns its destination.
func (o *operations) asked(number uint32) (proc int) {
	op := &o.all[place(number)]
	op.due++
	o.due[op.proc]++
	return op.proc
}

// find returns the operation that an active-message reply belongs to, or nil.
func (o *operations) find(number uint32, kind uint8) *operation {
	if i := place(number); i < len(o.all) {
		if op := &o.all[i]; op.kind == kind && op.use<<placeBits == number&^(1<<placeBits-1) {
			return op
		}
	}
	return nil
}

// replied records a reply to an operation.
func (o *operations) replied(c *layer.Counters, number uint32) {
	op := &o.all[place(number)]
	op.due--
	o.due[op.proc]--
	o.abandon(c, number, 1)
}

// abandon records that replies to an operation will not arrive, or have arrived.
func (o *operations) abandon(c *layer.Counters, number uint32, replies int) {
	i := place(number)
	op := &o.all[i]
	if op.left -= replies; op.left <= 0 {
		o.due[op.proc] -= op.due
		op.kind, op.dst = opNone, nil
		o.free = append(o.free, uint32(i))
		c.Outstanding--
	}
}
