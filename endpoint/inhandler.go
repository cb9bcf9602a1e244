package endpoint

import (
	"reflect"
	"runtime"
)

// runCode and runReturnCode are the functions that every handler runs beneath.
var (
	runCode       = codeOf((*Node).run)
	runReturnCode = codeOf((*Node).runReturn)
)

// code is where the instructions of a function are.
type code struct{ from, to uintptr }

func (c code) contains(pc uintptr) bool { return pc >= c.from && pc < c.to }

// codeOf returns that of f, which is never inlined. Where it ends nobody tells
// but by example.
func codeOf(f any) code {
	c := code{from: runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Entry()}
	for c.to = c.from + 1; ; c.to++ {
		if at := runtime.FuncForPC(c.to); at == nil || at.Entry() != c.from {
			return c
		}
	}
}

// inHandler reports whether the calling goroutine is running a handler, by a look
// at its stack, as Go does not tell goroutines apart. It takes about a microsecond, so
// it is asked only where other goroutines might be the ones that run handlers.
func inHandler() bool {
	var pcs [32]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if runCode.contains(pc-1) || runReturnCode.contains(pc-1) {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
