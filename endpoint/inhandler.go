package endpoint

import (
	"reflect"
	"runtime"
)

// runName and runReturnName are the functions that every handler runs beneath.
var (
	runName       = runtime.FuncForPC(reflect.ValueOf((*Node).run).Pointer()).Name()
	runReturnName = runtime.FuncForPC(reflect.ValueOf((*Node).runReturn).Pointer()).Name()
)

// inHandler reports whether the calling goroutine is running a handler, by a look
// at its stack, as Go does not tell goroutines apart. It takes about a microsecond, so
// it is asked only where other goroutines might be the ones that run handlers.
func inHandler() bool {
	var pcs [32]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		for _, pc := range pcs[:n] {
			if name := runtime.FuncForPC(pc - 1).Name(); name == runName || name == runReturnName {
				return true
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
