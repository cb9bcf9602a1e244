package agent

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/iface"
	"github.com/bobnet-go/bobnet/transport"
	"golang.org/x/sys/unix"
)

// fake serves connections as handle says, in the place of an agent.
func fake(t *testing.T, handle func(c *net.UnixConn)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(time.Minute))
			handle(c)
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-over
	})
	return path
}

// lease is one that has not asked yet.
func lease(path string) *Lease {
	return &Lease{path: path, closed: make(chan struct{}), request: Request{Version: Version, Interface: "bob0", EtherType: ethertype.Default}}
}

// TestHostileAgent: whatever answers in the place of an agent, a program gets an error and
// keeps none of the descriptors that came with the answer.
func TestHostileAgent(t *testing.T) {
	good, err := json.Marshal(Reply{Ports: transport.PortRange{Lo: 1024, Hi: 2047}})
	if err != nil {
		t.Fatal(err)
	}
	refused, err := json.Marshal(Reply{Refusal: "never heard of", Error: "no"})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		raw   []byte // nil: the body, as a message
		body  []byte
		files int
		want  error
	}{
		"nothing":                 {raw: []byte{}, want: io.EOF},
		"half a length":           {raw: []byte{0, 0}, files: 1, want: io.EOF},
		"half a message":          {raw: []byte{0, 0, 0, 9, '{'}, files: 3, want: io.ErrUnexpectedEOF},
		"too long":                {raw: []byte{0xff, 0xff, 0xff, 0xff}, files: 2, want: unix.EMSGSIZE},
		"no JSON":                 {body: []byte("welcome"), files: 5},
		"an unknown refusal":      {body: refused, files: 4, want: ErrRefused},
		"no descriptors":          {body: good, want: unix.EPROTO},
		"only packet sockets":     {body: good, files: linkSockets, want: unix.EPROTO},
		"a claim that holds none": {body: good, files: linkSockets + 1},
	} {
		pipe, shown, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		fd := int(shown.Fd())
		path := fake(t, func(c *net.UnixConn) {
			var r Request
			Read(c, &r, MaxRequest)
			fds := make([]int, tt.files)
			for i := range fds {
				fds[i] = fd
			}
			raw := tt.raw
			if raw == nil {
				WriteBytes(c, tt.body, fds...)
			} else if len(raw) > 0 {
				c.WriteMsgUnix(raw, rightsOf(fds), nil)
			}
		})
		l := lease(path)
		conn, reply, fds, err := l.ask(t.Context())
		if err == nil {
			if err = l.createStation(iface.Interface{Index: 1, Name: "bob0"}, reply, fds); err == nil {
				t.Errorf("%s: it was taken", name)
			}
			conn.Close()
			CloseAll(append(fds, l.shown...))
		}
		if err == nil || tt.want != nil && !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		shown.Close()
		pipe.SetReadDeadline(time.Now().Add(time.Minute))
		if n, err := pipe.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v, want that nobody holds what came with it", name, err)
		}
		pipe.Close()
	}
}

func rightsOf(fds []int) []byte {
	if len(fds) == 0 {
		return nil
	}
	return unix.UnixRights(fds...)
}

// TestHostileQuestions: a program answers what it does not know, with descriptors or without,
// by nothing; what is no question ends the connection, and with it nothing else.
func TestHostileQuestions(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		ends[i] = c.(*net.UnixConn)
	}
	l := lease("")
	asked := 0
	l.Answer(func(what string) ([]byte, error) {
		if what != Snapshot {
			return nil, errors.ErrUnsupported
		}
		asked++
		switch asked {
		case 2:
			return nil, errors.New("no")
		case 3:
			return make([]byte, MaxAnswer+1), nil
		}
		return []byte("well"), nil
	})
	for i, tt := range []struct{ question, want string }{
		{`{"What":"snapshot"}`, "well"}, {`{"What":"snapshot"}`, ""}, {`{"What":"snapshot"}`, ""},
		{`{"What":"memory"}`, ""}, {`{}`, ""}, {`{"What":"snapshot","More":[1]}`, "well"},
	} {
		if err := WriteBytes(ends[0], []byte(tt.question), 0); err != nil {
			t.Fatal(err)
		}
		if err := l.reply(ends[1]); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		body, _, err := ReadBytes(ends[0], MaxAnswer)
		if err != nil || string(body) != tt.want {
			t.Errorf("%d, %s: %q, %v, want %q", i, tt.question, body, err, tt.want)
		}
	}
	if err := WriteBytes(ends[0], []byte("what?")); err != nil {
		t.Fatal(err)
	}
	if err := l.reply(ends[1]); err == nil {
		t.Error("what is no question was answered")
	}
}
