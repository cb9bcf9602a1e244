package splitc

import (
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"sync"
)

// registry holds the variables and atomic procedures that the program registers before it starts,
// by name. It is the same in all processes of a program, because they run the same executable.
// Start checks this.
var registry struct {
	mu         sync.Mutex
	variables  map[string]*variable
	procedures map[string]*procedure
	err        error // of the first failed registration
}

// variable is a registered variable.
type variable struct {
	name string
	size uint64
	kind string
}

// procedure is an atomic procedure.
type procedure struct {
	name         string
	args, result int // bytes
	kind         string
	run          func(w *World, args, result []byte)
}

// register adds an entry with a name to one of the registry's tables.
func register[V any](table *map[string]V, name string, v V, err error) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if _, twice := (*table)[name]; twice && err == nil {
		err = opError("start", ErrArgument, "%q is registered twice", name)
	}
	if registry.err == nil {
		registry.err = err
	}
	if *table == nil {
		*table = map[string]V{}
	}
	(*table)[name] = v
}

// layout is a world's view of the registry.
type layout struct {
	offsets    map[*variable]uint64
	procedures []*procedure
	numbers    map[*procedure]uint32
	end        uint64 // end offset of the variables
	hash       uint32
}

// newLayout assigns each registered variable an offset and each procedure a number, in the order of
// names.
func newLayout() (l layout, err error) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.err != nil {
		return l, registry.err
	}
	h := fnv.New32a()
	l.offsets, l.numbers, l.end = map[*variable]uint64{}, map[*procedure]uint32{}, firstStatic
	for _, name := range slices.Sorted(maps.Keys(registry.variables)) {
		v := registry.variables[name]
		l.offsets[v] = l.end
		l.end += (v.size + granule - 1) / granule * granule
		fmt.Fprintf(h, "%q %s %d\n", name, v.kind, v.size)
	}
	for _, name := range slices.Sorted(maps.Keys(registry.procedures)) {
		p := registry.procedures[name]
		l.numbers[p] = uint32(len(l.procedures))
		l.procedures = append(l.procedures, p)
		fmt.Fprintf(h, "%q() %s %d %d\n", name, p.kind, p.args, p.result)
	}
	l.hash = h.Sum32()
	return l, nil
}

// Variable is a variable that each process has, at the same address in all of them. It corresponds
// to a variable in Split-C's data segment.
type Variable[T any] struct{ v *variable }

// Static registers a variable under a name. Programs call it for package-level variables, so that
// it happens before Start, and in all processes. Start returns any error of the registration. The
// variable is initially zero.
func Static[T any](name string) *Variable[T] {
	v := &variable{name: name, size: size[T](), kind: reflect.TypeFor[T]().String()}
	err := checkType[T]()
	if err != nil {
		err = opError("start", err, "variable %q", name)
	}
	register(&registry.variables, name, v, err)
	return &Variable[T]{v}
}

// On returns a pointer to a processor's variable, or null if it was registered after w started.
func (v *Variable[T]) On(w *World, proc int) Global[T] {
	return Global[T]{off: w.layout.offsets[v.v], proc: processor(proc)}
}

// Local returns this process's variable, which lies in its heap. It returns nil after Exit, and if
// the variable was registered after w started.
func (v *Variable[T]) Local(w *World) *T {
	off := w.layout.offsets[v.v]
	if off == 0 || w.stop == ErrClosed {
		return nil
	}
	return at[T](w.heap, off)
}
