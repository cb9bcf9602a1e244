package conn

import (
	"errors"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/transport"
)

// narrow is a link that refuses frames longer than most bytes, as a full queue is refused:
// without an error. Its first sends fail if err is not nil.
type narrow struct {
	most int
	err  error
	took []int // lengths of frames
}

func (l *narrow) Send(frames []transport.Frame) (int, error) {
	if err := l.err; err != nil {
		l.err = nil
		return 0, err
	}
	for i := range frames {
		if frames[i].Len() > l.most {
			return i, nil
		}
		l.took = append(l.took, frames[i].Len())
	}
	return len(frames), nil
}

// add adds a frame with size bytes of data to a station.
func add(b *Batch, to byte, size int) {
	slot := b.Slot()
	h := ethertype.Header{Dst: ethertype.MAC{2, 0, 0, 0, 0, to}, Kind: ethertype.KindData, Size: uint16(size), Length: uint32(size)}
	h.Put(slot)
	b.Add(slot[:ethertype.HeaderSize], append(b.Body(), make([]byte, size)), nil)
}

func newBatch(t *testing.T, link frameSink) (*Batch, *BatchStats) {
	b, stats := &Batch{}, &BatchStats{}
	b.Init(link, 1500, 1400, stats, func(error) {})
	if b.Inline() < 1400 || b.Full() || b.Enough() || b.Len() != 0 {
		t.Fatal("a new batch is not empty")
	}
	return b, stats
}

// TestTooLong: a frame that never passes while shorter ones do is dropped, and so are those
// to its station that are no shorter; others overtake it and are sent.
func TestTooLong(t *testing.T) {
	link := &narrow{most: 1000}
	b, stats := newBatch(t, link)
	now := int64(1)
	add(b, 1, 1200)
	for range 2 * refusedTimes {
		add(b, 1, 100)
		if got := b.Flush(now); got == flushDone && stats.TxTooLong == 0 {
			t.Fatal("the link has taken a frame that is too long")
		}
		now = max(now+2*txRetry, b.RetryAt(now))
	}
	if stats.TxTooLong != 1 || len(link.took) != 2*refusedTimes || b.Len() != 0 {
		t.Fatalf("%d dropped, %d passed, %d left", stats.TxTooLong, len(link.took), b.Len())
	}
	add(b, 1, 1200)
	if got := b.Flush(now); got != flushDone || stats.TxTooLong != 2 {
		t.Errorf("another one: %v, %d dropped", got, stats.TxTooLong)
	}
}

// TestRefused: a link that takes nothing at all is asked again, ever more rarely, and
// nothing is lost before the frame at the head has been offered for long.
func TestRefused(t *testing.T) {
	link := &narrow{}
	b, stats := newBatch(t, link)
	now := int64(1)
	for i := range 3 {
		add(b, 1, 100+i)
	}
	asked := 0
	for stats.TxTooLong == 0 && asked < 10_000 {
		if b.Flush(now) != flushRefused {
			break
		}
		asked++
		at := b.RetryAt(now)
		if at <= now || at > now+refusedMax {
			t.Fatalf("asked again after %d ns", at-now)
		}
		now = at
	}
	if now < refusedMax || asked > 200 {
		t.Errorf("given up after %d ns, asked %d times", now, asked)
	}
	link.most = 1500
	now = b.RetryAt(now)
	if got := b.Flush(now); got != flushDone || uint64(len(link.took))+stats.TxTooLong != 3 {
		t.Errorf("%v: %d sent, %d dropped of 3", got, len(link.took), stats.TxTooLong)
	}
}

// TestError: the frame at which the link fails is lost and counted; the rest goes on.
func TestError(t *testing.T) {
	link := &narrow{most: 1500, err: errors.New("gone")}
	b, stats := newBatch(t, link)
	for range 3 {
		add(b, 1, 100)
	}
	if got := b.Flush(1); got != flushDone || stats.TxDropped != 1 || stats.TxFrames != 2 {
		t.Errorf("%v, %+v", got, *stats)
	}
}

// TestDiscard: what the link has not taken is forgotten and counted.
func TestDiscard(t *testing.T) {
	b, stats := newBatch(t, &narrow{})
	for range 3 {
		add(b, 1, 100)
	}
	if b.Flush(1) != flushRefused || b.Unsent() != 3 {
		t.Fatal("a link that takes nothing has taken something")
	}
	if b.Discard(); b.Flush(1) != flushDone || b.Len() != 0 || stats.TxDropped != 3 {
		t.Errorf("%d left, %+v", b.Len(), *stats)
	}
}
