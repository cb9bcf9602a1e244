// Package counters derives metrics, sums and texts from the struct tags of counters and snapshots.
//
//	type Stats struct {
//		Sent  uint64 `metric:"bobnet_x_sent_total" help:"Frames sent."`
//		Early uint64 `metric:"bobnet_x_dropped_total" reason:"early" help:"it came too early"`
//		RTT   time.Duration `metric:"bobnet_x_round_trip_seconds" help:"Round-trip time." add:"max"`
//	}
//
// Each field with a reason is a separate series of its metric, distinguished by a label. Other
// fields of one metric are added up. A metric whose name ends in _total is a counter, and any other
// metric is a gauge. The integer field of a metric of seconds is in nanoseconds. The value of a
// tagged slice is its length, and fields of its elements are added up. Fields behind a nil pointer
// have no value. The tag text is the field's name in human-readable lists.
//
// The data path increments plain fields. Only code that reads a snapshot uses reflection.
package counters

import (
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
)

// Field is a series that the tags of a type describe.
type Field struct {
	Metric string
	Reason string // value of the label that distinguishes the series of the metric; "" if there is one series
	Help   string // help text of the metric, or the meaning of Reason
	Len    int    // length of an array without a Reason, each element of which is a series; 0 for other fields

	paths [][]int // index paths of the fields that are added up
}

// Of returns the series that the tags in the struct type t describe, in the order of the fields.
func Of(t reflect.Type) []Field {
	var all []Field
	walk(t, nil, "", func(f Field) {
		for i := range all {
			if have := &all[i]; have.Metric == f.Metric && have.Reason == f.Reason {
				have.paths = append(have.paths, f.paths...)
				if have.Help == "" {
					have.Help = f.Help
				}
				return
			}
		}
		all = append(all, f)
	})
	return all
}

// walk calls found for each tagged field of t. A field in a struct with a reason has that reason.
func walk(t reflect.Type, path []int, reason string, found func(Field)) {
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() && !sf.Anonymous {
			continue
		}
		at := append(path[:len(path):len(path)], i)
		why := reason
		if own := sf.Tag.Get("reason"); own != "" {
			why = own
		}
		metric := sf.Tag.Get("metric")
		if metric != "" {
			f := Field{Metric: metric, Reason: why, Help: sf.Tag.Get("help"), paths: [][]int{at}}
			if sf.Type.Kind() == reflect.Array && why == "" {
				f.Len = sf.Type.Len()
			}
			found(f)
		}
		inner := sf.Type
		if inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice && metric != "" {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			walk(inner, at, why, found)
		}
	}
}

// Value returns the value of f in v, a struct of the type passed to Of. ok is false if v has no
// value.
func (f *Field) Value(v reflect.Value) (n float64, ok bool) { return f.sum(v, -1) }

// At is Value for element i of an array.
func (f *Field) At(v reflect.Value, i int) (n float64, ok bool) { return f.sum(v, i) }

func (f *Field) sum(v reflect.Value, element int) (n float64, ok bool) {
	for _, path := range f.paths {
		x, there := value(v, path, element)
		n += x
		ok = ok || there
	}
	if strings.HasSuffix(strings.TrimSuffix(f.Metric, "_total"), "_seconds") {
		n /= 1e9
	}
	return n, ok
}

func value(v reflect.Value, path []int, element int) (n float64, ok bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return 0, false
		}
		return value(v.Elem(), path, element)
	case reflect.Slice:
		if len(path) == 0 {
			return float64(v.Len()), true
		}
		for i := range v.Len() {
			x, _ := value(v.Index(i), path, element)
			n += x
		}
		return n, true
	case reflect.Array:
		for i := range v.Len() {
			if element < 0 || element == i {
				x, _ := value(v.Index(i), nil, -1)
				n += x
			}
		}
		return n, true
	case reflect.Struct:
		return value(v.Field(path[0]), path[1:], element)
	case reflect.Bool:
		if v.Bool() {
			n = 1
		}
		return n, true
	}
	switch {
	case v.CanUint():
		return float64(v.Uint()), true
	case v.CanInt():
		return float64(v.Int()), true
	}
	return v.Float(), true
}

// NonZero lists the fields of s, a pointer to a struct, that have a tag text and are not 0, as
// "frames sent 3".
func NonZero(s any) (list []string) {
	nonZero(reflect.ValueOf(s).Elem(), &list)
	return list
}

func nonZero(v reflect.Value, list *[]string) {
	for i := range v.NumField() {
		text, f := v.Type().Field(i).Tag.Get("text"), v.Field(i)
		switch {
		case text != "" && !f.IsZero():
			*list = append(*list, fmt.Sprintf("%s %v", text, f))
		case text == "" && f.Kind() == reflect.Struct:
			nonZero(f, list)
		}
	}
}

// Add adds the numbers in t to those in s: integers and floats of the size of a word, in nested
// structs and arrays too. A field with the tag add:"max" keeps the greater number instead. Other
// fields of s are unchanged.
func Add[S any](s, t *S) { addFields(reflect.ValueOf(s).Elem(), reflect.ValueOf(t).Elem(), "") }

func addFields(s, t reflect.Value, how string) {
	switch s.Kind() {
	case reflect.Struct:
		for i := range s.NumField() {
			if sf := s.Type().Field(i); sf.IsExported() || sf.Anonymous {
				addFields(s.Field(i), t.Field(i), sf.Tag.Get("add"))
			}
		}
	case reflect.Array:
		for i := range s.Len() {
			addFields(s.Index(i), t.Index(i), how)
		}
	case reflect.Uint64:
		s.SetUint(join(s.Uint(), t.Uint(), how))
	case reflect.Int, reflect.Int64:
		s.SetInt(join(s.Int(), t.Int(), how))
	case reflect.Float64:
		s.SetFloat(join(s.Float(), t.Float(), how))
	}
}

func join[N uint64 | int64 | float64](a, b N, how string) N {
	if how == "max" {
		return max(a, b)
	}
	return a + b
}

// Load sets the fields of the struct *to from the atomic counters of the same names in the struct
// *from, in nested structs and arrays too. Other fields of *to are unchanged.
func Load(to, from any) { load(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()) }

func load(to, from reflect.Value) {
	switch n := from.Addr().Interface().(type) {
	case *atomic.Uint64:
		to.SetUint(n.Load())
		return
	case *atomic.Int64:
		to.SetInt(n.Load())
		return
	}
	switch from.Kind() {
	case reflect.Array:
		for i := range from.Len() {
			load(to.Index(i), from.Index(i))
		}
	case reflect.Struct:
		for i := range from.NumField() {
			sf := from.Type().Field(i)
			if x := to.FieldByName(sf.Name); sf.IsExported() && x.IsValid() {
				load(x, from.Field(i))
			}
		}
	}
}
