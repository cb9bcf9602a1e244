package roundtrip

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	oracle "github.com/stellar/go-xdr/xdr3"
	"pgregory.net/rapid"

	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// randomEverything returns a random value in the oracle's types, and its encoding by the
// oracle.
func randomEverything(t rapid.TB, seed uint64) (*everything, []byte) {
	t.Helper()
	v := new(everything)
	f := &filler{rand.New(rand.NewPCG(seed, 1)), 6}
	f.fill(reflect.ValueOf(v).Elem(), 5)
	var b bytes.Buffer
	if _, err := oracle.Marshal(&b, v); err != nil {
		t.Fatal("the oracle:", err)
	}
	return v, b.Bytes()
}

// TestSameAsOracle: generated types decode what the oracle encodes to the same value, also
// into memory of another one, and encode that to the same octets.
func TestSameAsOracle(t *testing.T) {
	var reused all.Everything
	rapid.Check(t, func(t *rapid.T) {
		want, msg := randomEverything(t, rapid.Uint64().Draw(t, "seed"))
		for _, got := range []*all.Everything{new(all.Everything), &reused} {
			if err := xdr.Unmarshal(msg, got); err != nil {
				t.Fatal(err)
			}
			if !same(reflect.ValueOf(got).Elem(), reflect.ValueOf(want).Elem()) {
				t.Fatalf("decoded\n%+v, the oracle encoded\n%+v", got, want)
			}
			ours, err := xdr.Append(nil, got)
			if err != nil || !bytes.Equal(ours, msg) {
				t.Fatalf("encoded\n%x (%v), the oracle\n%x", ours, err, msg)
			}
		}
		var back everything
		if _, err := oracle.Unmarshal(bytes.NewReader(msg), &back); err != nil {
			t.Fatal("the oracle:", err)
		}
	})
}
