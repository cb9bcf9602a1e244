package endpoint

import (
	"reflect"
	"runtime"
)

// runCode and runReturnCode are the functions that run all handlers.
var (
	runCode       = codeOf((*Node).run)
	runReturnCode = codeOf((*Node).runReturn)
)

// code is the address range of a function's instructions.
type code struct{ from, to uintptr }

func (c code) contains(pc uintptr) bool { return pc >= c.from && pc < c.to }

// codeOf returns the range of f, which must never be inlined. Go reports no end of a function, so
// codeOf finds it by trial.
func codeOf(f any) code {
	c := code{from: runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Entry()}
	for c.to = c.from + 1; ; c.to++ {
		if at := runtime.FuncForPC(c.to); at == nil || at.Entry() != c.from {
			return c
		}
	}
}

// inHandler reports whether the calling goroutine is running a handler. Go does not identify
// goroutines, so inHandler examines the stack, which takes about 1 us. Callers use it only if other
// goroutines could be running the handlers.
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
