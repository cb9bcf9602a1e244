package tun

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// recordOf returns a record of a packet of n octets.
func recordOf(rng *rand.Rand, n int) []byte {
	b := newBuffer()
	defer b.free()
	for i := range b.room()[:vnetSize+n] {
		b.room()[i] = byte(rng.Uint32())
	}
	return bytes.Clone(b.fill(vnetSize + n).record())
}

// TestRecords: records come out as they went in, however the stream is cut, and nothing is
// allocated for them.
func TestRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var all []byte
	var want [][]byte
	for range 400 {
		n := 1 + rng.IntN(maxRecord-vnetSize)
		if rng.IntN(2) == 0 {
			n = 1 + rng.IntN(100)
		}
		r := recordOf(rng, n)
		want = append(want, r[recordHead:])
		all = append(all, r...)
	}
	for name, from := range map[string]io.Reader{
		"whole": bytes.NewReader(all), "halved": iotest.HalfReader(bytes.NewReader(all)), "in pieces": &pieces{rng, all}, "with the end": iotest.DataErrReader(bytes.NewReader(all)),
	} {
		r := newRecords(from)
		i := 0
		for ; i < len(want); i++ {
			if got, err := r.next(); err != nil || !bytes.Equal(got, want[i]) {
				t.Fatalf("%s: record %d of %d octets came as one of %d, or %v", name, i, len(want[i]), len(got), err)
			}
		}
		if _, err := r.next(); err != io.EOF {
			t.Errorf("%s: the end is %v", name, err)
		}
	}
	r := newRecords(&pieces{rng, all})
	if n := testing.AllocsPerRun(300, func() { r.next() }); n != 0 {
		t.Errorf("%v allocations for a record", n)
	}
}

// pieces is a reader that gives any number of octets.
type pieces struct {
	rng  *rand.Rand
	rest []byte
}

func (p *pieces) Read(b []byte) (n int, err error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n = copy(b[:1+p.rng.IntN(min(len(b), 200_000))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// TestRecordsWrong: a stream that ends within a record, or has a length that none has.
func TestRecordsWrong(t *testing.T) {
	whole := recordOf(rand.New(rand.NewPCG(1, 2)), 1000)
	for _, n := range []int{1, recordHead - 1, recordHead, recordHead + 1, len(whole) - 1} {
		if _, err := newRecords(bytes.NewReader(whole[:n])).next(); err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d octets: %v", n, err)
		}
	}
	for _, head := range [][]byte{{0, 0, 0, 0}, {vnetSize, 0, 0, 0}, {0xff, 0xff, 0xff, 0x7f}, {0, 0, 0, 0x80}} {
		if _, err := newRecords(io.MultiReader(bytes.NewReader(head), bytes.NewReader(whole))).next(); !errors.Is(err, errRecord) {
			t.Errorf("length % x: %v", head, err)
		}
	}
}
