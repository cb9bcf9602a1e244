package rpcbind

import (
	"sync"

	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

// maxTallies bounds the programs that are counted by name; further ones are not.
const maxTallies = 256

// tally is what version 4 tells about one version of the protocol (RPCBPROC_GETSTAT):
// rpcb_stat.
type tally struct {
	mu          sync.Mutex
	procs       [procCount]int32
	sets        int32
	unsets      int32
	lookups     []lookupTally
	remoteCalls []callTally
}

// lookupTally counts requests for an address: rpcbs_addrlist.
type lookupTally struct {
	prog, vers       uint32
	netid            string
	success, failure int32
}

// callTally counts calls made for others: rpcbs_rmtcalllist.
type callTally struct {
	prog, vers, proc           uint32
	netid                      string
	success, failure, indirect int32
}

func (t *tally) call(proc uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.procs[proc]++
}

func (t *tally) change(n *int32, ok bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if ok {
		*n++
	}
	return ok
}

func (t *tally) lookup(prog, vers uint32, netid string, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.lookups {
		if l := &t.lookups[i]; l.prog == prog && l.vers == vers && l.netid == netid {
			l.count(found)
			return
		}
	}
	if len(t.lookups) < maxTallies {
		l := lookupTally{prog: prog, vers: vers, netid: netid}
		l.count(found)
		t.lookups = append(t.lookups, l)
	}
}

func (l *lookupTally) count(found bool) {
	if found {
		l.success++
	} else {
		l.failure++
	}
}

func (t *tally) remoteCall(r *rmtcall, netid string, indirect, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.remoteCalls {
		if c := &t.remoteCalls[i]; c.prog == r.prog && c.vers == r.vers && c.proc == r.proc && c.netid == netid {
			c.count(indirect, ok)
			return
		}
	}
	if len(t.remoteCalls) < maxTallies {
		c := callTally{prog: r.prog, vers: r.vers, proc: r.proc, netid: netid}
		c.count(indirect, ok)
		t.remoteCalls = append(t.remoteCalls, c)
	}
}

func (c *callTally) count(indirect, ok bool) {
	if ok {
		c.success++
	} else {
		c.failure++
	}
	if indirect {
		c.indirect++
	}
}

// tallies is rpcb_stat_byvers: versions 2, 3 and 4.
type tallies [3]tally

func (t *tallies) MarshalXDR(e *xdr.Encoder) {
	for i := range t {
		t[i].marshal(e)
	}
}

func (t *tally) marshal(e *xdr.Encoder) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.procs {
		e.Int(n)
	}
	e.Int(t.sets)
	e.Int(t.unsets)
	for _, l := range t.lookups {
		e.Bool(true)
		e.Uint(l.prog)
		e.Uint(l.vers)
		e.Int(l.success)
		e.Int(l.failure)
		e.String(l.netid, maxText)
	}
	e.Bool(false)
	for _, c := range t.remoteCalls {
		e.Bool(true)
		e.Uint(c.prog)
		e.Uint(c.vers)
		e.Uint(c.proc)
		e.Int(c.success)
		e.Int(c.failure)
		e.Int(c.indirect)
		e.String(c.netid, maxText)
	}
	e.Bool(false)
}
