package roundtrip

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/all"
	"github.com/bobnet-go/bobnet/internal/rpcgen/testdata/rfc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// value is a generated type.
type value interface {
	xdr.Marshaler
	xdr.Unmarshaler
}

// FuzzDecode: generated types encode what they accept to the same bytes.
func FuzzDecode(f *testing.F) {
	for seed := range uint64(20) {
		_, msg := randomEverything(f, seed)
		f.Add(msg)
	}
	msg, err := xdr.Append(nil, outer())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(msg)
	f.Fuzz(func(t *testing.T, msg []byte) {
		for _, v := range []value{
			new(all.Everything), new(all.Numbered), new(all.Choice), new(all.Entry), new(all.Tree),
			new(rfc.Outer), new(rfc.Recursive), new(rfc.Many), new(rfc.Nest), new(rfc.OnlyLink),
		} {
			if xdr.Unmarshal(msg, v) != nil {
				continue
			}
			got, err := xdr.Append(nil, v)
			if err != nil || !bytes.Equal(got, msg) {
				t.Errorf("%v: decoded from\n%x, encoded to\n%x (%v)", reflect.TypeOf(v), msg, got, err)
			}
		}
	})
}
