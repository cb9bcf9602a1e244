package endpoint_test

import (
	"context"
	"errors"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint"
	"pgregory.net/rapid"
)

// The calls of the model test.

func (m *model) free(rt *rapid.T) {
	if len(m.eps) < 3 {
		rt.Skip("no call: so few endpoints are kept")
	}
	e := m.pick(rt)
	if err := e.Free(); err != nil {
		rt.Fatal(err)
	}
	e.freed, m.freed = true, true
	m.eps = slices.DeleteFunc(m.eps, func(x *modelEndpoint) bool { return x == e })
}

func (m *model) move(rt *rapid.T) {
	e := m.pick(rt)
	e.bundle = 1 - e.bundle
	if err := e.Move(e.home.bundles[e.bundle]); err != nil {
		rt.Fatal(err)
	}
	if e.Bundle() != e.home.bundles[e.bundle] {
		rt.Fatal("it is not where it was moved to")
	}
	for _, n := range m.nodes {
		if n == e.home {
			continue
		}
		if err := e.Move(n.bundles[0]); !errors.Is(err, endpoint.ErrResource) {
			rt.Fatalf("moved to another node: %v", err)
		}
	}
}

var modelTags = []endpoint.Tag{endpoint.TagAll, endpoint.TagAll, 77, 78, endpoint.TagNone}

func (m *model) setTag(rt *rapid.T) {
	e := m.pick(rt)
	s := e.change()
	s.tag = rapid.SampledFrom(modelTags).Draw(rt, "tag")
	e.SetTag(s.tag)
}

func (m *model) setHandler(rt *rapid.T) {
	e := m.pick(rt)
	number := modelHandler + rapid.Uint8Range(0, replyKinds).Draw(rt, "handler")
	if number == modelHandler+replyKinds {
		number = hReply
	}
	e.set(e.change(), number, rapid.Bool().Draw(rt, "used"))
}

// setSegment may be refused while something is under way, and only then: see
// settle.
func (m *model) setSegment(rt *rapid.T) {
	e := m.pick(rt)
	s := *e.now()
	if e.newSegment(rt, &s, rapid.SampledFrom([]int{places, places, 3, 0}).Draw(rt, "places")) {
		e.states = append(e.states, &s)
	}
}

func (m *model) bind(rt *rapid.T) {
	e := m.pick(rt)
	b := &modelMap{tag: rapid.SampledFrom([]endpoint.Tag{77, 77, 78}).Draw(rt, "tag"), mapped: true}
	name := e.Name()
	if rapid.IntRange(0, 7).Draw(rt, "known") > 0 {
		b.to = m.pick(rt) // often itself
		name = b.to.Name()
	} else {
		name.ID = 999
	}
	b.index = rapid.IntRange(0, 3).Draw(rt, "index")
	err := e.Map(b.index, name, b.tag)
	if e.maps[b.index] != nil {
		if !errors.Is(err, endpoint.ErrInUse) {
			rt.Fatalf("mapped twice: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	e.maps[b.index] = b
}

func (m *model) unbind(rt *rapid.T) {
	e := m.pick(rt)
	i := rapid.IntRange(0, 3).Draw(rt, "index")
	err := e.Unmap(i)
	if e.maps[i] == nil {
		if !errors.Is(err, endpoint.ErrResource) {
			rt.Fatalf("unmapped twice: %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	e.maps[i].mapped = false
	delete(e.maps, i)
}

// send sends a request through some translation. It never waits for a credit.
func (m *model) send(rt *rapid.T, op endpoint.Op) {
	e := m.pick(rt)
	index := rapid.IntRange(0, 3).Draw(rt, "index")
	for k := 0; e.maps[index] == nil; k++ { // mostly one that is mapped
		if k == 4 {
			return
		}
		index = (index + 1) % 4
	}
	b := e.maps[index]
	x := &modelMessage{id: uint32(len(m.messages)), op: op, from: e, by: b, replyTag: e.now().tag, mine: len(e.states) - 1}
	if b.to != nil {
		x.since = len(b.to.states) - 1
	}
	x.handler = modelHandler + rapid.Uint8Range(0, replyKinds-1).Draw(rt, "handler")
	x.args = make([]uint32, rapid.IntRange(1, endpoint.MaxShort).Draw(rt, "args"))
	for k := range x.args {
		x.args[k] = x.id*31 + uint32(k)
	}
	x.args[0] = x.id
	m.fill(rt, x)
	m.messages = append(m.messages, x)
	sure := b.fresh < e.home.credits[min(op, endpoint.OpRequestBulk)-1]
	switch err := m.post(rt, x); {
	case err == nil:
		b.fresh++
		m.unsettled = append(m.unsettled, x)
	case (errors.Is(err, context.Canceled) || errors.Is(err, endpoint.ErrInUse)) && !sure:
		x.by = &modelMap{} // it was not sent, and must not be heard of
	default:
		rt.Fatalf("%v: %v", x, err)
	}
}

// fill makes the data, and where it is to go.
func (m *model) fill(rt *rapid.T, x *modelMessage) {
	x.offset = place(x.id)
	switch x.op {
	case endpoint.OpRequestMedium:
		x.data = pattern(make([]byte, rapid.SampledFrom([]int{0, 1, 1000, 4096}).Draw(rt, "size")), int(x.id))
	case endpoint.OpRequestBulk:
		x.data = pattern(make([]byte, rapid.SampledFrom([]int{0, 100, 4096, 4097, placeSize}).Draw(rt, "size")), int(x.id))
	case endpoint.OpGet:
		x.handler = hReply
		x.offset, x.to = uint64(rapid.IntRange(0, 4000).Draw(rt, "from")), x.offset
		x.length = rapid.SampledFrom([]int{0, 10, 4096, 5000}).Draw(rt, "length")
	}
	if x.op >= endpoint.OpRequestBulk && rapid.IntRange(0, 9).Draw(rt, "wild") == 0 {
		x.offset = rapid.Uint64Min(1<<20).Draw(rt, "offset")
	}
}

func (m *model) post(rt *rapid.T, x *modelMessage) error {
	e, i := x.from, x.by.index
	data := slices.Clone(x.data)
	if x.op == endpoint.OpRequestBulk && rapid.Bool().Draw(rt, "async") {
		return e.RequestBulkAsync(i, x.handler, data, x.offset, x.args...)
	}
	defer clear(data) // it belongs to the caller again
	switch x.op {
	case endpoint.OpRequest:
		return e.Request(m.gone, i, x.handler, x.args...)
	case endpoint.OpRequestMedium:
		return e.RequestMedium(m.gone, i, x.handler, data, x.args...)
	case endpoint.OpGet:
		return e.Get(m.gone, i, x.handler, x.offset, x.to, x.length, x.args...)
	}
	return e.RequestBulk(m.gone, i, x.handler, data, x.offset, x.args...)
}
