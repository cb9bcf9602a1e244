package xdr_test

import (
	"fmt"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// A linked list, declared as struct entry { string name<255>; entry *next; }, is encoded
// from and decoded into a slice in a loop, so that it may be longer than MaxDepth.
func Example_list() {
	var e xdr.Encoder
	for _, name := range []string{"a", "bc", "def"} {
		e.Bool(true)
		e.String(name, 255)
	}
	e.Bool(false)
	fmt.Println(e.Len(), "bytes", e.Err())

	var d xdr.Decoder
	d.Reset(e.Bytes())
	for d.Bool() {
		fmt.Println(d.String(255))
	}
	fmt.Println(d.End())
	// Output:
	// 40 bytes <nil>
	// a
	// bc
	// def
	// <nil>
}
