package framing

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
	"pgregory.net/rapid"
)

// put gives a joiner a segment, as a link does, and returns the frame that it completes.
func put(j *Joiner, segment []byte) (whole []byte) {
	const header = ethertype.EthernetSize + LongHeader
	if JudgeLong(segment, len(segment), ethertype.Default) != LongCut {
		return nil
	}
	dst := j.Place(segment, len(segment))
	if dst == nil {
		return nil
	}
	if copy(dst, segment[header:]) != len(segment)-header {
		panic("a segment's place has another length")
	}
	return j.Placed()
}

// numbered returns a frame as longFrame does, with a sequence number of its own.
func numbered(seq ethertype.Seq, size int) (plain, long []byte) {
	plain, _ = longFrame(size)
	binary.BigEndian.PutUint32(plain[26:], uint32(seq))
	ethertype.Seal(plain)
	long = make([]byte, ethertype.EthernetSize+LongHeader, LongHeader+len(plain))
	PutLong(long, plain, len(plain))
	return plain, append(long, plain[ethertype.EthernetSize:]...)
}

// TestJoinAnyOrder: frames whose segments arrive in turns, each out of order, some of them twice, come
// whole when each segment has arrived, and not before.
func TestJoinAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var plain [][]byte
		var left [][][]byte // segments of each frame
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		for i := range rapid.IntRange(1, joinFrames).Draw(t, "frames") {
			p, long := numbered(ethertype.Seq(i), rapid.IntRange(3000, LongMTU-ethertype.BaseSize).Draw(t, "size"))
			segments := cut(long, rapid.IntRange(1220, min(len(p)-ethertype.EthernetSize-1, 30_000)).Draw(t, "mss"))
			for i := range segments { // about so many gaps can be noted
				k := min(i+r.IntN(joinSpans/2), len(segments)-1)
				segments[i], segments[k] = segments[k], segments[i]
			}
			plain, left = append(plain, p), append(left, segments)
		}
		var j Joiner
		for n := len(plain); n > 0; {
			i := r.IntN(len(plain))
			if len(left[i]) == 0 {
				continue
			}
			s := left[i][0]
			left[i] = left[i][1:]
			switch got := put(&j, s); {
			case len(left[i]) > 0 && got != nil:
				t.Fatalf("frame %d is whole, %d segments are missing", i, len(left[i]))
			case len(left[i]) == 0 && !bytes.Equal(got, plain[i]):
				t.Fatalf("frame %d has %d bytes, or others", i, len(got))
			case len(left[i]) == 0:
				n--
			case r.IntN(4) == 0 && put(&j, s) != nil:
				t.Fatalf("a segment of frame %d counts twice", i)
			}
		}
	})
}

// TestJoinSameCRC: what has arrived of one frame is not joined to another one whose header has the same CRC32C, the same
// ports and the same length, but another tag or sequence number.
func TestJoinSameCRC(t *testing.T) {
	for name, at := range map[string]int{"tag": offsetTag + 3, "sequence number": offsetSeq + 3} {
		old, _ := numbered(1, 9000)
		plain := bytes.Clone(old)
		plain[at]++
		for i := range plain[ethertype.HeaderSize:] {
			plain[ethertype.HeaderSize+i]++
		}
		segmentsOf := func(plain []byte) [][]byte {
			long := make([]byte, ethertype.EthernetSize+LongHeader, LongHeader+len(plain))
			PutLong(long, plain, len(plain))
			return cut(append(long, plain[ethertype.EthernetSize:]...), 1440)
		}
		var j Joiner
		put(&j, segmentsOf(old)[3])
		var whole []byte
		for _, s := range segmentsOf(plain) {
			whole = put(&j, s)
		}
		if !bytes.Equal(whole, plain) {
			t.Errorf("another %s: %d bytes arrive, or some of another frame", name, len(whole))
		}
	}
}

// TestJoinLost: frames of which a segment is lost make room for others, and count.
func TestJoinLost(t *testing.T) {
	var j Joiner
	const frames = 3 * joinFrames
	for i := range frames {
		plain, long := numbered(ethertype.Seq(i), 9000)
		segments, lost := cut(long, 1440), i%2 == 0
		for k, s := range segments {
			if lost && k == 2 {
				continue
			}
			if whole := put(&j, s); !bytes.Equal(whole, plain[:len(whole)]) || (whole != nil) != (!lost && k == len(segments)-1) {
				t.Fatalf("frame %d has %d bytes after segment %d of %d", i, len(whole), k, len(segments))
			}
		}
	}
	if want := (frames/2 - joinFrames + 1) * 6; j.Torn != want { // the last frame, which is whole, had a place, too
		t.Errorf("%d segments are torn, want %d", j.Torn, want)
	}
}

// TestJoinHostile: no segment is placed where a byte of its frame is already, or beyond the frame; each such
// segment is counted, and the frame comes whole all the same.
func TestJoinHostile(t *testing.T) {
	plain, long := numbered(1, 20_000)
	segments := cut(long, 1440)
	field := func(s []byte, at int, v uint32) []byte {
		s = bytes.Clone(s)
		binary.BigEndian.PutUint32(s[ethertype.EthernetSize+at:], v)
		return s
	}
	at := func(i int) uint32 { return uint32(1440 * i) }
	var j Joiner
	for i, s := range segments[:5] {
		if i != 2 {
			put(&j, s)
		}
	}
	for name, bad := range map[string][]byte{
		"again":                  segments[1],
		"into the next one":      field(segments[2], longSeq, at(2)+1),
		"from the one before":    field(segments[2], longSeq, at(2)-1),
		"over several":           field(long, longSeq, 0)[:74+4*1440],
		"beyond the end":         field(segments[2], longSeq, uint32(len(plain)-14-1439)),
		"far beyond":             field(segments[2], longSeq, 1<<31),
		"before the beginning":   field(segments[2], longSeq, 0xffffffff),
		"longer than it says":    append(bytes.Clone(segments[2]), 1),
		"without data":           segments[2][:74],
		"of a frame of no bytes": field(segments[2], longWindow-2, 0x50100000),
	} {
		before := j.Torn
		forged := JudgeLong(bad, len(bad), ethertype.Default) == LongForged
		if put(&j, bad) != nil || !forged && j.Torn != before+1 {
			t.Errorf("%s: it is placed, or not counted: forged: %v, counted %d", name, forged, j.Torn-before)
		}
	}
	for name, other := range map[string][]byte{ // of frames that were never sent
		"name":   field(segments[2], longName, 77),
		"ports":  field(segments[2], longPorts, 77),
		"length": field(segments[2], longWindow-2, 0x50100000|uint32(len(plain))),
		"too long": func() []byte {
			s := field(segments[2], longWindow-2, 0x5010ffff)
			return s
		}(),
	} {
		if put(&j, other) != nil {
			t.Errorf("another %s: a frame is whole", name)
		}
	}
	var whole []byte
	for i, s := range segments {
		if i == 2 || i >= 5 {
			whole = put(&j, s)
		}
	}
	if !bytes.Equal(whole, plain) {
		t.Errorf("%d bytes arrive, or others than the %d that were sent", len(whole), len(plain))
	}
}

// TestJoinNoAllocations: once a joiner has memory for the frames that are partly there, it needs no more.
func TestJoinNoAllocations(t *testing.T) {
	_, long := numbered(1, 60_000)
	segments := cut(long, 1440)
	var j Joiner
	if n := testing.AllocsPerRun(100, func() {
		for i, s := range segments {
			if whole := put(&j, s); (whole != nil) != (i == len(segments)-1) {
				t.Fatal("not whole")
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations for a frame", n)
	}
}

// FuzzJoin: whatever arrives, no frame is whole that has a byte which no segment had.
func FuzzJoin(f *testing.F) {
	_, long := numbered(3, 4000)
	for i, s := range cut(long, 1440) {
		f.Add(uint32(i*1440), uint16(len(s)-74), uint16(4048), uint64(i))
	}
	f.Fuzz(func(t *testing.T, from uint32, size, whole uint16, seed uint64) {
		var j Joiner
		r := rand.New(rand.NewPCG(seed, 1))
		var filled [LongMTU]bool
		for range 40 {
			s := make([]byte, ethertype.EthernetSize+LongHeader+1+int(size)%3000)
			copy(s, long[:ethertype.EthernetSize+LongHeader])
			outer := s[ethertype.EthernetSize:]
			binary.BigEndian.PutUint32(outer[longSeq:], from)
			binary.BigEndian.PutUint16(outer[longWindow:], whole)
			binary.BigEndian.PutUint16(outer[longLength:], uint16(len(s)-ethertype.EthernetSize-ipSize))
			dst := j.Place(s, len(s))
			if dst != nil {
				for i := range dst {
					if filled[int(from)+i] {
						t.Fatalf("byte %d is placed twice", int(from)+i)
					}
					filled[int(from)+i] = true
				}
				frame := j.Placed()
				for i := range max(0, len(frame)-ethertype.EthernetSize) {
					if !filled[i] {
						t.Fatalf("the frame is whole without byte %d", i)
					}
				}
				if frame != nil {
					return
				}
			}
			from, size = uint32(r.IntN(int(whole)+1)), uint16(r.IntN(1<<16))
		}
	})
}
