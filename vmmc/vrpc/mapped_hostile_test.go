package vrpc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"github.com/bobnet-go/bobnet/vmmc/xdr"
)

var hostileScopes atomic.Uint32

// twoProcesses returns two processes of VMMC over shared memory.
func twoProcesses(t testing.TB) (p [2]*vmmc.Process) {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	scope := fmt.Sprint(t.Name(), os.Getpid(), hostileScopes.Add(1)) // of this run alone
	for i := range p {
		nic, err := vipl.Open(t.Context(), &vipl.Config{Driver: "shm", Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nic.Close() })
		if p[i], err = vmmc.Open(t.Context(), &vmmc.Config{NIC: nic, Process: uint32(i), Job: scope, Logger: quiet}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p[i].Close() })
	}
	return p
}

// post sends bytes as a message by the rules of the ring.
func (m *mapped) post(t *testing.T, msg []byte) {
	t.Helper()
	s := sending{post: new(parcel)}
	if _, err := m.send(t.Context(), msg, 0, nil, &s); err == nil {
		s.post.waitSent(context.Background(), m.proc)
	} else if m.to.Done() == nil { // else the server has had enough
		t.Fatal(err)
	}
}

// poke writes bytes anywhere in the other side's ring.
func (m *mapped) poke(t *testing.T, offset int, data ...byte) {
	t.Helper()
	if err := m.proc.SendMsg(t.Context(), data, m.base+vmmc.ProxyAddr(offset)); err != nil && m.to.Done() == nil {
		t.Fatal(err)
	}
}

func testWords(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// nullCall is a call of procedure 0 of program 7.
var nullCall = testWords(1, 0, 2, 7, 1, 0, 0, 0, 0, 0)

// Whatever a client does once it is connected, it loses its connection in its time, the server
// counts why, and goes on.
func TestMappedHostileClient(t *testing.T) {
	const short = 200 * time.Millisecond
	idle, record, broken := ServerConfig{IdleTimeout: short}, ServerConfig{RecordTimeout: short}, ServerConfig{}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, m *mapped)
		how  ServerConfig
	}{
		{"nothing", func(*testing.T, *mapped) {}, idle},
		{"half a call", func(t *testing.T, m *mapped) {
			offset, tail := m.out.put(nil, 8, false, 0)
			m.poke(t, offset, append(nullCall[:8:8], tail...)...)
		}, record},
		{"a tail of another ring", func(t *testing.T, m *mapped) {
			m.out.key[0]++
			m.post(t, nullCall)
		}, idle},
		{"a record out of its turn", func(t *testing.T, m *mapped) {
			m.out.number += 2
			m.post(t, nullCall)
		}, idle},
		{"replies that are not read", func(t *testing.T, m *mapped) {
			for range 400 { // more than fit into the ring for replies
				m.post(t, nullCall)
			}
		}, record},
		{"no call", func(t *testing.T, m *mapped) { m.post(t, testWords(1, 1, 0)) }, broken},
		{"an empty piece", func(t *testing.T, m *mapped) {
			offset, tail := m.out.put(nil, 0, false, 0)
			m.poke(t, offset, tail...)
		}, broken},
		{"a length beyond the ring", func(t *testing.T, m *mapped) {
			offset, tail := m.out.put(nil, 0, true, 0)
			binary.BigEndian.PutUint32(tail[20:], lastFragment|1<<30)
			m.poke(t, offset, tail...)
		}, broken},
		{"a length of 2^31-1", func(t *testing.T, m *mapped) {
			offset, tail := m.out.put(nil, 0, true, 0)
			binary.BigEndian.PutUint32(tail[20:], 1<<32-1)
			m.poke(t, offset, tail...)
		}, broken},
		{"more pieces than a message may have", func(t *testing.T, m *mapped) {
			for range 12 {
				offset, tail := m.out.put(nil, 96, false, 0)
				m.poke(t, offset, append(make([]byte, 96), tail...)...)
			}
		}, broken},
		{"more is freed than there was", func(t *testing.T, m *mapped) {
			m.poke(t, 0, testWords(1<<20)...)
			m.post(t, nullCall)
		}, broken},
	} {
		t.Run(c.name, func(t *testing.T) { losesConnection(t, c.how, c.how == broken, c.do) })
	}
}

// losesConnection has a client do something for which it loses its connection, as broken or
// for its silence.
func losesConnection(t *testing.T, cfg ServerConfig, broken bool, do func(*testing.T, *mapped)) {
	p := twoProcesses(t)
	cfg.MaxMessage = 1000
	s := NewServer(&cfg)
	name, err := s.ListenVMMC(p[0], 1, vmmc.Everybody)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m := rawClient(t, p[1], name)
	do(t, m)
	never := func() bool { return false }
	if err := m.to.Await(t.Context(), never); !errors.Is(err, vmmc.ErrUnexported) {
		t.Errorf("the connection ends with %v", err)
	}
	ended(t, s)
	if n := s.Snapshot(); n.ConnsBroken+n.ConnsTimedOut != 1 || (n.ConnsBroken == 1) != broken {
		t.Errorf("counted %+v", n)
	}
	callOnce(t, p[1], name)
}

// rawClient returns a client's side of a connection, of minRing bytes.
func rawClient(t *testing.T, p *vmmc.Process, name vmmc.Name) *mapped {
	t.Helper()
	door, err := p.Import(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	m, err := knock(t.Context(), door, p, minRing)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.close(context.Background()) })
	return m
}

// ended waits until a server has no connections.
func ended(t *testing.T, s *Server) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for s.Snapshot().ConnsOpen > 0 {
		<-tick.C
	}
}

// callOnce checks that a server answers.
func callOnce(t *testing.T, p *vmmc.Process, name vmmc.Name) {
	t.Helper()
	c, err := DialVMMC(t.Context(), p, name, 7, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	await(t, func() bool { // the server may be as impatient with this one
		err = c.Ping(t.Context())
		return !errors.Is(err, ErrTransport)
	})
	if !errors.Is(err, ProgUnavail) {
		t.Errorf("afterwards: %v", err)
	}
}

// What a client offers of its ring is checked, and one that knocks and does nothing else
// costs its time.
func TestMappedHostileSetup(t *testing.T) {
	for _, c := range []struct {
		name  string
		first []byte // record
	}{
		{"no offer", testWords(1, 2, 3)},
		{"another magic", testWords(1, 0, 9, minRing, 0, 0)},
		{"no bytes", testWords(mappedMagic, 0, 9, 0, 0, 0)},
		{"too many", testWords(mappedMagic, 0, 9, 1<<32-8, 0, 0)},
		{"not as many as there are", testWords(mappedMagic, 0, 9, 2*minRing, 0, 0)},
		{"no such export", testWords(mappedMagic, 0, 8, minRing, 0, 0)},
		{"nothing", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := twoProcesses(t)
			s := NewServer(&ServerConfig{Ring: minRing})
			defer s.Close()
			d, err := newDoor(s, p[0], 1, vmmc.Everybody)
			if err != nil {
				t.Fatal(err)
			}
			d.patience = 300 * time.Millisecond
			if err := s.Start(d, d.accept); err != nil {
				t.Fatal(err)
			}
			name := vmmc.Name{Node: p[0].Self().Node, Process: p[0].Self().Process, ID: 1}
			if _, err := p[1].Export(make([]byte, ringControl+minRing), 9, vmmc.Everybody, nil); err != nil {
				t.Fatal(err)
			}
			door, err := p[1].Import(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			if c.first == nil {
				if err := p[1].SendMsgWithNotify(t.Context(), nil, door.Addr()); err != nil {
					t.Fatal(err)
				}
			} else {
				offerRing(t, p[1], door, c.first)
			}
			await(t, func() bool { return s.Snapshot().ConnsBroken == 1 })
			ended(t, s)
		})
	}
}

// offerRing does what knock does, with another first record.
func offerRing(t *testing.T, p *vmmc.Process, door *vmmc.Import, first []byte) {
	t.Helper()
	offer, err := greet(t.Context(), door, p, door.Owner())
	if err != nil {
		return // the server has not waited so long
	}
	to, err := offer.accept(t.Context(), p, door.Owner())
	if err != nil {
		return
	}
	m := newMapped(p, make([]byte, ringControl+minRing), offer.key)
	m.connect(to, offer.key)
	m.post(t, first)
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !done(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not come")
		}
	}
}

// Whatever a server writes, its client's calls end with an error, and the next makes another
// connection.
func TestMappedHostileServer(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, m *mapped, xid uint32)
	}{
		{"no reply", func(t *testing.T, m *mapped, _ uint32) { m.post(t, testWords(1, 0, 0)) }},
		{"a few bytes", func(t *testing.T, m *mapped, _ uint32) { m.post(t, testWords(1)) }},
		{"a reply cut short", func(t *testing.T, m *mapped, xid uint32) { m.post(t, testWords(xid, 1, 0)) }},
		{"a length beyond the ring", func(t *testing.T, m *mapped, _ uint32) {
			offset, tail := m.out.put(nil, 0, true, 0)
			binary.BigEndian.PutUint32(tail[20:], 1<<31-8)
			m.poke(t, offset, tail...)
		}},
		{"an end in the middle", func(t *testing.T, m *mapped, _ uint32) { m.close(t.Context()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := twoProcesses(t)
			d := &door{server: NewServer(nil), proc: p[0], knocking: make(chan vmmc.Peer, 1), patience: greetPatience}
			var err error
			if d.export, err = p[0].Export(make([]byte, 4), 1, vmmc.Everybody, d.knocked); err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			go func() {
				defer close(served)
				m, err := d.greet(t.Context(), <-d.knocking, false)
				if err == nil {
					err = p[0].Await(t.Context(), m.in.ready)
				}
				if err != nil {
					t.Error(err)
					return
				}
				rec, _, _, _ := m.receive()
				c.do(t, m, binary.BigEndian.Uint32(rec.payload))
			}()
			client, err := DialVMMC(t.Context(), p[1], vmmc.Name{Node: p[0].Self().Node, Process: 0, ID: 1}, 7, 1, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := client.Call(t.Context(), 1, xdr.Void{}, &xdr.Void{}); !errors.Is(err, ErrTransport) && !errors.Is(err, ErrBadReply) {
				t.Errorf("%v", err)
			}
			<-served
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
