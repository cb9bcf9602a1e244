package roundtrip

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/rfc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
	oracle "github.com/stellar/go-xdr/xdr3"
	"pgregory.net/rapid"
)

// The types of testdata/all/all.x, written by hand for the oracle, which looks at types,
// tags and methods.
type (
	mColor    int32
	mFromZero int32
	mBool     int32 // of a discriminant, where the oracle has no bool
	mPoint    struct{ X, Y int32 }
	mName     string
	mData     []byte
	mPath     []mPoint
	mNames    []mName

	mEntry struct {
		Who  mName
		Id   int32
		Next *mEntry
	}
	mTree struct {
		Value       int32
		Left, Right *mTree
	}
	mChoice struct {
		Which mColor
		Text  *string
		There *mPoint
	}
	mAnswerOr struct {
		Known  mBool
		Known_ *int64
	}
	mNumbered struct {
		Number int32
		Who    *mName
		From   *[2]mPoint
		Way    *mPath
		Rest   *uint32
	}
	mSized struct {
		Size uint32
		Big  *[7]byte
	}
)

// everything mirrors struct everything.
type everything struct {
	I         int32
	U         uint32
	V         uint32
	L         int32
	Ul        uint32
	S         int16
	Us        uint16
	C         int8
	Uc        uint8
	Bits      uint32
	H         int64
	Uh        uint64
	F         float32
	D         float64
	B         bool
	E         mColor
	Z         mFromZero
	Fixed     [5]byte
	Bytes     []byte `xdrmaxsize:"20"`
	Text      string
	Numbers   [3]int32
	More      []int64 `xdrmaxsize:"4"`
	Corners   [2]mPoint
	Dots      []mPoint
	Title     mName
	Id        [7]byte
	Content   mData
	At        uint64
	Edge      [2]mPoint
	Way       mPath
	Colors    []mColor
	Spot      mPoint
	Titles    mNames
	Chosen    mChoice
	Answered  mAnswerOr
	Any       mNumbered
	Large     mSized
	Perhaps   *int32
	Somewhere *mPoint
	List      *mEntry
	Root      *mTree
}

func (mColor) ValidEnum(v int32) bool    { return v == 2 || v == 3 || v == -5 }
func (mFromZero) ValidEnum(v int32) bool { return v == 0 || v == 1 || v == 8 || v == 9 }

func (mName) XDRMaxSize() int  { return 10 }
func (mData) XDRMaxSize() int  { return 20 }
func (mPath) XDRMaxSize() int  { return 3 }
func (mNames) XDRMaxSize() int { return 4 }

func (mChoice) SwitchFieldName() string { return "Which" }
func (mChoice) ArmForSwitch(v int32) (string, bool) {
	return map[int32]string{2: "Text", -5: "There"}[v], v == 2 || v == 3 || v == -5
}

func (mAnswerOr) SwitchFieldName() string { return "Known" }
func (mAnswerOr) ArmForSwitch(v int32) (string, bool) {
	return map[int32]string{1: "Known_"}[v], v == 0 || v == 1
}

func (mNumbered) SwitchFieldName() string { return "Number" }
func (mNumbered) ArmForSwitch(v int32) (string, bool) {
	if arm := map[int32]string{0: "Who", 1: "Who", -7: "From", 8: "Way"}[v]; arm != "" {
		return arm, true
	}
	return "Rest", true
}

func (mSized) SwitchFieldName() string { return "Size" }
func (mSized) ArmForSwitch(v int32) (string, bool) {
	return map[int32]string{-1: "Big"}[v], true
}

// union is what the oracle takes for one.
type union interface {
	SwitchFieldName() string
	ArmForSwitch(int32) (string, bool)
}

// choices are the values of enumerations, and the interesting ones of discriminants.
var choices = map[reflect.Type][]int64{
	reflect.TypeFor[mColor]():    {2, 3, -5},
	reflect.TypeFor[mFromZero](): {0, 1, 8, 9},
	reflect.TypeFor[mChoice]():   {2, 3, -5},
	reflect.TypeFor[mAnswerOr](): {0, 1},
	reflect.TypeFor[mNumbered](): {0, 1, -7, 8, 5},
	reflect.TypeFor[mSized]():    {0xffffffff, 6},
}

// filler makes random values.
type filler struct {
	*rand.Rand
	depth int // of pointers that may still be followed
}

// fill sets v, whose length is up to max where it has one.
func (f *filler) fill(v reflect.Value, max int) {
	if u, ok := v.Interface().(union); ok {
		f.union(v, u)
		return
	}
	if list := choices[v.Type()]; list != nil {
		v.SetInt(list[f.IntN(len(list))])
		return
	}
	if sized, ok := v.Interface().(interface{ XDRMaxSize() int }); ok {
		max = sized.XDRMaxSize()
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.IntN(2) == 1)
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(f.Uint64()) >> (64 - v.Type().Bits()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(float32(f.NormFloat64() * 1e6)))
	case reflect.String:
		v.SetString(strings.Repeat("ab~ ", 3)[:f.IntN(min(max, 12)+1)])
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.IntN(min(max, 5)+1), 5))
		f.elements(v)
	case reflect.Array:
		f.elements(v)
	case reflect.Pointer:
		f.pointer(v)
	case reflect.Struct:
		f.fields(v)
	}
}

func (f *filler) elements(v reflect.Value) {
	for i := range v.Len() {
		f.fill(v.Index(i), 5)
	}
}

func (f *filler) fields(v reflect.Value) {
	for i := range v.NumField() {
		max := 5
		if v.Type().Field(i).Tag.Get("xdrmaxsize") == "4" {
			max = 4
		}
		f.fill(v.Field(i), max)
	}
}

func (f *filler) pointer(v reflect.Value) {
	if f.depth == 0 || f.IntN(4) == 0 {
		return
	}
	f.depth--
	v.Set(reflect.New(v.Type().Elem()))
	f.fill(v.Elem(), 5)
	f.depth++
}

// union sets the discriminant and its arm.
func (f *filler) union(v reflect.Value, u union) {
	list := choices[v.Type()]
	n := list[f.IntN(len(list))]
	disc := v.FieldByName(u.SwitchFieldName())
	switch disc.Kind() {
	case reflect.Uint32:
		disc.SetUint(uint64(n))
	default:
		disc.SetInt(n)
	}
	if name, _ := u.ArmForSwitch(int32(n)); name != "" {
		arm := v.FieldByName(name)
		arm.Set(reflect.New(arm.Type().Elem()))
		f.fill(arm.Elem(), 5)
	}
}

// same reports whether both have the same values under the same names. Arms are
// pointers in the mirror, and some of them values in generated types.
func same(got, want reflect.Value) bool {
	if want.Kind() == reflect.Pointer && got.Kind() != reflect.Pointer {
		if want.IsNil() {
			return got.IsZero()
		}
		want = want.Elem()
	}
	if want.Type() == reflect.TypeFor[mBool]() {
		return got.Bool() == (want.Int() == 1)
	}
	if got.Kind() != want.Kind() {
		return false
	}
	switch got.Kind() {
	case reflect.Pointer:
		return got.IsNil() == want.IsNil() && (got.IsNil() || same(got.Elem(), want.Elem()))
	case reflect.Struct:
		for i := range got.NumField() {
			other := want.FieldByName(got.Type().Field(i).Name)
			if !other.IsValid() || !same(got.Field(i), other) {
				return false
			}
		}
		return got.NumField() == want.NumField()
	case reflect.Slice, reflect.Array:
		for i := range got.Len() {
			if got.Len() != want.Len() || !same(got.Index(i), want.Index(i)) {
				return false
			}
		}
		return got.Len() == want.Len()
	}
	return got.Equal(want.Convert(got.Type()))
}

// TestRecursiveUnion: a list as RFC 4506 section 4.19 writes it first is encoded as that section
// says: a true, an item, and so on, and a false.
func TestRecursiveUnion(t *testing.T) {
	v := rfc.Stringlist{}
	for _, item := range []string{"three", "two", "one"} {
		v = rfc.Stringlist{Opted: true, Element: &rfc.StringlistElement{Item: item, Next: v}}
	}
	msg, err := xdr.Append(nil, &v)
	want := "\x00\x00\x00\x01\x00\x00\x00\x03one\x00\x00\x00\x00\x01\x00\x00\x00\x03two\x00\x00\x00\x00\x01\x00\x00\x00\x05three\x00\x00\x00\x00\x00\x00\x00"
	if err != nil || string(msg) != want {
		t.Fatalf("encoded %q (%v), want %q", msg, err, want)
	}
	var back rfc.Stringlist
	for range 2 { // the second time into the memory of the first
		if err := xdr.Unmarshal(msg, &back); err != nil {
			t.Fatal(err)
		}
		if again, err := xdr.Append(nil, &back); err != nil || !bytes.Equal(again, msg) {
			t.Errorf("%q (%v) came back", again, err)
		}
	}
	tree := rfc.Expression{Op: 1, Pair: &[2]rfc.Expression{{Op: 0, Number: 3}, {Op: 1, Pair: &[2]rfc.Expression{{}, {Op: 7}}}}}
	msg, err = xdr.Append(nil, &tree)
	var same rfc.Expression
	if err != nil || xdr.Unmarshal(msg, &same) != nil || same.Pair[0].Number != 3 || same.Pair[1].Pair[1].Op != 7 {
		t.Errorf("%v; came back as %+v", err, same)
	}
}

// TestRecursiveDepth: neither a message nor a value that contains itself makes calls go deeper
// than MaxDepth.
func TestRecursiveDepth(t *testing.T) {
	deep := bytes.Repeat([]byte{0, 0, 0, 1, 0, 0, 0, 0}, 1<<20)
	var list rfc.Stringlist
	if err := xdr.Unmarshal(deep, &list); !errors.Is(err, xdr.ErrDepth) {
		t.Errorf("decoded: %v", err)
	}
	var tree rfc.Expression
	if err := xdr.Unmarshal(bytes.Repeat([]byte{0, 0, 0, 1}, 1<<20), &tree); !errors.Is(err, xdr.ErrDepth) {
		t.Errorf("decoded: %v", err)
	}
	round := rfc.Expression{Op: 1, Pair: &[2]rfc.Expression{}}
	round.Pair[0] = round // its pair is the same memory
	if _, err := xdr.Append(nil, &round); !errors.Is(err, xdr.ErrDepth) {
		t.Errorf("encoded: %v", err)
	}
}

// TestTwoNames: two names of one value are one value, whose text is the first of them; an arm may
// be named like its discriminant.
func TestTwoNames(t *testing.T) {
	if rfc.Mismatch != rfc.RpcMismatch || rfc.Mismatch.String() != "RPC_MISMATCH" {
		t.Errorf("%d %v, %d", rfc.Mismatch, rfc.Mismatch, rfc.RpcMismatch)
	}
	v := rfc.RejectedReply{Stat: rfc.AuthError, Stat_: 5}
	msg, err := xdr.Append(nil, &v)
	if want := []byte{0, 0, 0, 1, 0, 0, 0, 5}; err != nil || !bytes.Equal(msg, want) {
		t.Errorf("encoded %x (%v), want %x", msg, err, want)
	}
}

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
// into memory of another one, and encode that to the same bytes.
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
