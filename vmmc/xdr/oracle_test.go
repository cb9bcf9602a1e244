package xdr_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	oracle "github.com/stellar/go-xdr/xdr3"
	"pgregory.net/rapid"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

func genPoint() *rapid.Generator[point] {
	return rapid.Custom(func(t *rapid.T) point {
		return point{rapid.Int32().Draw(t, "x"), rapid.Int32().Draw(t, "y")}
	})
}

func genSink(depth int) *rapid.Generator[sink] {
	return rapid.Custom(func(t *rapid.T) sink {
		s := sink{
			I:  rapid.Int32().Draw(t, "int"),
			U:  rapid.Uint32().Draw(t, "unsigned"),
			E:  color(rapid.SampledFrom([]int32{2, 3, -5}).Draw(t, "enum")),
			B:  rapid.Bool().Draw(t, "bool"),
			H:  rapid.Int64().Draw(t, "hyper"),
			UH: rapid.Uint64().Draw(t, "unsigned hyper"),
			F:  rapid.Float32().Draw(t, "float"),
			D:  rapid.Float64().Draw(t, "double"),
			S:  rapid.StringOfN(rapid.RuneFrom([]rune("ab\x00~")), 0, 10, 10).Draw(t, "string"),
		}
		octets := func(n int) []byte { return rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "octets") }
		copy(s.Q[:], octets(16))
		copy(s.Fixed[:], octets(5))
		s.Var = octets(rapid.IntRange(0, 20).Draw(t, "length"))
		s.Pair = [2]point{genPoint().Draw(t, "p"), genPoint().Draw(t, "q")}
		s.List = rapid.SliceOfN(genPoint(), 0, 3).Draw(t, "list")
		s.C.Color = 3
		if rapid.Bool().Draw(t, "text") {
			text := rapid.StringN(0, 9, 30).Draw(t, "arm")
			s.C = choice{2, &text}
		}
		if depth > 0 && rapid.Bool().Draw(t, "more") {
			next := genSink(depth-1).Draw(t, "next")
			s.Next = &next
		}
		return s
	})
}

// TestSameOctetsAsOracle: both encode any value to the same octets, and each decodes
// them to that value.
func TestSameOctetsAsOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genSink(3).Draw(t, "value")
		ours, err := xdr.Append(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		var theirs bytes.Buffer
		if _, err := oracle.Marshal(&theirs, &want); err != nil {
			t.Fatal("the oracle:", err)
		}
		if !bytes.Equal(ours, theirs.Bytes()) {
			t.Fatalf("encoded\n%x, the oracle says\n%x", ours, theirs.Bytes())
		}
		var got, other sink
		if err := xdr.Unmarshal(ours, &got); err != nil {
			t.Fatal(err)
		}
		if _, err := oracle.Unmarshal(bytes.NewReader(ours), &other); err != nil {
			t.Fatal("the oracle:", err)
		}
		for _, s := range []*sink{&got, &other, &want} {
			normalize(s)
		}
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(other, want) {
			t.Fatalf("decoded\n%+v, the oracle\n%+v, want\n%+v", got, other, want)
		}
	})
}

// normalize makes nil what is empty, and NaNs comparable.
func normalize(s *sink) {
	if len(s.Var) == 0 {
		s.Var = nil
	}
	if len(s.List) == 0 {
		s.List = nil
	}
	if s.F != s.F {
		s.U, s.F = s.U^math.Float32bits(s.F), 0
	}
	if s.D != s.D {
		s.UH, s.D = s.UH^math.Float64bits(s.D), 0
	}
	if s.Next != nil {
		normalize(s.Next)
	}
}

// TestReusedValue: a value that is decoded into memory of another one is the same as in
// new memory.
func TestReusedValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		got, want := genSink(2).Draw(t, "old"), genSink(2).Draw(t, "new")
		msg, err := xdr.Append(nil, &want)
		if err == nil {
			err = xdr.Unmarshal(msg, &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		normalize(&got)
		normalize(&want)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("decoded\n%+v, want\n%+v", got, want)
		}
	})
}

// TestCutShort: no beginning of a message is a message, and it is said to be too short.
func TestCutShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := genSink(1).Draw(t, "value")
		msg, err := xdr.Append(nil, &v)
		if err != nil {
			t.Fatal(err)
		}
		var d xdr.Decoder
		for n := range msg {
			var got sink
			d.Reset(msg[:n])
			got.UnmarshalXDR(&d)
			wantError(t, d.End(), xdr.ErrShort, "octets, has")
		}
		var got sink
		wantError(t, xdr.Unmarshal(append(msg, 0), &got), xdr.ErrTrailing, "1 octets are left")
	})
}
