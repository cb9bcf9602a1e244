package providertest_test

import (
	"bytes"
	"context"
	"slices"

	"github.com/bobnet-go/bobnet/endpoint/internal/provider"
	"github.com/bobnet-go/bobnet/endpoint/internal/providertest"
	"github.com/bobnet-go/bobnet/endpoint/internal/wire"
	"github.com/bobnet-go/bobnet/ethertype"
)

// The cases of the suite.
const (
	messages = "messages arrive once"
	keeps    = "all packets may be kept"
	corks    = "what is corked goes by flush"
	writes   = "data are placed once"
	revokes  = "a revoked window is not written"
	closes   = "a closed end breaks the other once"
	refuses  = "a refusal has its reason"
	accounts = "memory is accounted for"
	waiting  = "a node waits and is woken"
	naming   = "a node is found by name"
)

// each is how many packets pass before a fault hits the next one.
const each = 7

// faults are the promises that the suite is to find broken.
var faults = slices.Concat(messageFaults, bufferFaults, windowFaults, endFaults, nodeFaults)

// twin is the home of a packet that was handed on twice.
type twin struct{}

var messageFaults = []fault{
	{promise: "a message arrives", found: messages, received: func(h *brokenHalf, p *provider.Packet) {
		if h.n%each == 0 {
			h.ch.Channel.Release(p)
			return
		}
		h.Half.Received(p)
	}},
	{promise: "a message arrives once", found: messages, received: func(h *brokenHalf, p *provider.Packet) {
		again := *p
		again.Home = twin{}
		h.Half.Received(p)
		if h.n%each == 0 {
			h.Half.Received(&again)
		}
	}, release: func(ch *brokenChannel, p *provider.Packet) {
		if p.Home != (twin{}) {
			ch.Channel.Release(p)
		}
	}},
	{promise: "a message arrives as it was", found: messages, received: func(h *brokenHalf, p *provider.Packet) {
		if data := p.Head.Payload(p.Body); h.n%each == 0 && len(data) > 0 {
			data[len(data)-1] ^= 1
		}
		h.Half.Received(p)
	}},
	{promise: "what comes back is said", found: messages, rough: providertest.Rough{Return: 20},
		undelivered: func(*brokenHalf, int, wire.Reason) {}},
	{promise: "what comes back is said once", found: messages, rough: providertest.Rough{Return: 20},
		undelivered: func(h *brokenHalf, i int, reason wire.Reason) {
			h.Half.Undelivered(i, reason)
			h.Half.Undelivered(i, reason)
		}},
	{promise: "messages are no strays", found: messages, attach: func(h *brokenHost, up provider.Half, ch provider.Channel) {
		h.Host.Attach(up, ch)
		h.Host.Stray()
	}},
}

var bufferFaults = []fault{
	{promise: "a buffer is not idle while its message is under way", found: messages,
		idle: func(*brokenChannel, int) bool { return true },
		post: func(ch *brokenChannel, i, n, together int) {
			if ch.Channel.Idle(i) {
				ch.Channel.Post(i, n, together)
			}
		}},
	{promise: "a buffer is idle in the end", found: messages, idle: func(*brokenChannel, int) bool { return false }},
	{promise: "as many packets as slots can be kept", found: keeps, received: func(h *brokenHalf, p *provider.Packet) {
		if h.n > 4 { // the first has made the connection
			h.held = append(h.held, p)
			return
		}
		h.Half.Received(p)
	}},
	{promise: "a packet stays as it is while it is kept", found: keeps, received: func(h *brokenHalf, p *provider.Packet) {
		clear(h.last)
		h.last = p.Body
		h.Half.Received(p)
	}},
	{promise: "flush sends what is corked", found: corks, post: func(ch *brokenChannel, i, n, together int) {
		if together <= 1 {
			ch.Channel.Post(i, n, together)
		}
	}},
	{promise: "uncork sends at once", found: corks, post: func(ch *brokenChannel, i, n, together int) {
		if together != provider.Uncork {
			ch.Channel.Post(i, n, together)
		}
	}},
}

var windowFaults = []fault{
	{promise: "what is written is what was given", found: writes, write: func(ch *brokenChannel, slot int, data []byte, to wire.Window) {
		data = bytes.Clone(data)
		data[len(data)-1] ^= 1
		ch.Channel.Write(slot, data, to, false)
	}},
	{promise: "a write arrives", found: writes, write: func(*brokenChannel, int, []byte, wire.Window) {}},
	{promise: "placed is said", found: writes, placed: func(*brokenHalf, int) {}},
	{promise: "placed is said once", found: writes, placed: func(h *brokenHalf, slot int) {
		h.Half.Placed(slot)
		h.Half.Placed(slot)
	}},
	{promise: "wrote is said", found: writes, wrote: func(*brokenHalf, int) {}},
	{promise: "wrote is said once", found: writes, wrote: func(h *brokenHalf, slot int) {
		h.Half.Wrote(slot)
		h.Half.Wrote(slot)
	}},
	{promise: "a write ends", found: writes, writing: func(*brokenChannel, int) bool { return true }},
	{promise: "a window that was taken back is not written to", found: revokes,
		revoke: func(*brokenChannel, int) {},
		grant: func(ch *brokenChannel, slot int, mem []byte) (wire.Window, error) {
			if w, ok := ch.windows[slot]; ok { // it stays open
				return w, nil
			}
			w, err := ch.Channel.Grant(slot, mem)
			ch.windows = map[int]wire.Window{slot: w}
			return w, err
		}},
}

var endFaults = []fault{
	{promise: "the other end hears of a close", found: closes, broken: func(*brokenHalf, wire.Reason, error) {}},
	{promise: "the other end hears of it once", found: closes, broken: func(h *brokenHalf, reason wire.Reason, err error) {
		h.Half.Broken(reason, err)
		h.Half.Broken(reason, err)
	}},
	{promise: "the other end hears that it was a close", found: closes, broken: func(h *brokenHalf, _ wire.Reason, err error) {
		h.Half.Broken(wire.ReasonUnreachable, err)
	}},
	{promise: "nothing is called back after a close", found: closes, close: func(ch *brokenChannel) {
		ch.Channel.Close()
		ch.up.Half.Broken(wire.ReasonBadEndpoint, nil)
	}},
	{promise: "a refusal is heard", found: refuses, broken: func(*brokenHalf, wire.Reason, error) {}},
	{promise: "a refusal has its own reason", found: refuses, broken: func(h *brokenHalf, _ wire.Reason, err error) {
		h.Half.Broken(wire.ReasonCongestion, err)
	}},
	{promise: "a refusal is heard once", found: refuses, broken: func(h *brokenHalf, reason wire.Reason, err error) {
		h.Half.Broken(reason, err)
		h.Half.Broken(reason, err)
	}},
	{promise: "what a connection takes is taken", found: accounts, attach: func(h *brokenHost, up provider.Half, ch provider.Channel) {
		h.memory.Taken = 0
		h.Host.Attach(up, ch)
	}},
	{promise: "what it takes is given back", found: accounts, close: func(ch *brokenChannel) {
		before := ch.memory.Taken
		ch.Channel.Close()
		ch.memory.Taken = before
	}},
	{promise: "who finds no memory hears why", found: accounts, broken: func(h *brokenHalf, _ wire.Reason, err error) {
		h.Half.Broken(wire.ReasonUnreachable, err)
	}},
}

// sleepy is a node that does not hear Wake.
type sleepy struct{ provider.Provider }

func (sleepy) Wake() {}

// restless is a node whose waits do not say that it was their context which ended them.
type restless struct{ provider.Provider }

func (n restless) Wait(ctx context.Context) error {
	if err := n.Provider.Wait(ctx); err != nil {
		return provider.ErrClosed
	}
	return nil
}

// gateless is a node with gates that do not open.
type gateless struct{ provider.Provider }

func (n gateless) Gate() provider.Gate { return shutGate{n.Provider.Gate()} }

type shutGate struct{ provider.Gate }

func (shutGate) Open() {}

// nameless is a node that tells nobody its name.
type nameless struct{ provider.Provider }

func (nameless) Advertise(string) error { return nil }

// elsewhere is a node that finds others where they are not.
type elsewhere struct{ provider.Provider }

func (n elsewhere) Lookup(ctx context.Context, addr ethertype.Addr, name string) (ethertype.Addr, error) {
	at, err := n.Provider.Lookup(ctx, addr, name)
	at.Port++
	return at, err
}

// backwards is a node whose time goes back.
type backwards struct {
	provider.Provider
	now *int64
}

func (n backwards) Now() int64 {
	*n.now--
	return *n.now
}

var nodeFaults = []fault{
	{promise: "wake ends a wait", found: waiting, node: func(n provider.Provider) provider.Provider { return sleepy{n} }},
	{promise: "the context's end is what ends a wait", found: waiting, node: func(n provider.Provider) provider.Provider { return restless{n} }},
	{promise: "a gate that was opened lets through", found: waiting, node: func(n provider.Provider) provider.Provider { return gateless{n} }},
	{promise: "who has a name is found", found: naming, node: func(n provider.Provider) provider.Provider { return nameless{n} }},
	{promise: "who has a name is found where it is", found: naming, node: func(n provider.Provider) provider.Provider { return elsewhere{n} }},
	{promise: "the time goes on", found: naming, node: func(n provider.Provider) provider.Provider { return backwards{n, new(int64)} }},
}
