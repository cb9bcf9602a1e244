package nodeagent

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/transport"
	"github.com/mdlayher/ethernet"
	"golang.org/x/sys/unix"
)

// quiet starts a server in this process that judges no frames, so that it takes no rights.
func quiet(t testing.TB) (path string) {
	t.Helper()
	return logging(t, nil)
}

// logging is quiet with a logger.
func logging(t testing.TB, log *slog.Logger) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "sock")
	serving(t, Config{Path: path, Logger: log, Policy: func() (Policy, error) { return Policy{all: true}, nil }})
	return path
}

// serving starts a server of cfg in this process that judges no frames, until the test ends.
func serving(t testing.TB, cfg Config) *Server {
	t.Helper()
	cfg.Unguarded, cfg.EtherTypes = true, []ethernet.EtherType{ethertype.Default}
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	t.Cleanup(func() {
		s.Close()
		<-ended
	})
	return s
}

// request sends octets, with descriptors, and no more after them. It returns the reply, if
// there is one.
func request(t testing.TB, path string, octets []byte, fds ...int) (r agent.Reply, err error) {
	t.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if len(octets) > 0 { // the server may close first
		c.WriteMsgUnix(octets, oob, nil)
	}
	c.CloseWrite()
	got, err := agent.Read(c, &r, agent.MaxAnswer)
	agent.CloseAll(got)
	return r, err
}

// framed is a message of the agent's protocol.
func framed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// answers reports whether a server that has got something odd serves others as before.
func answers(t testing.TB, path string) {
	t.Helper()
	body, err := json.Marshal(&agent.Request{Version: agent.Version + 1})
	if err != nil {
		t.Fatal(err)
	}
	if r, err := request(t, path, framed(body)); err != nil || r.Refusal != agent.Invalid {
		t.Fatalf("the next request: %+v, %v", r, err)
	}
}

// TestHostileRequests: requests that are no message, too long, of nonsense, or that show
// sockets which hold nothing get no sockets, and keep nobody from getting an answer. The
// agent keeps none of the descriptors that came.
func TestHostileRequests(t *testing.T) {
	path := quiet(t)
	text := func(r agent.Request) []byte {
		body, err := json.Marshal(&r)
		if err != nil {
			t.Fatal(err)
		}
		return framed(body)
	}
	held := agent.Request{Version: agent.Version, Interface: "lo", Index: 1, MAC: "00:00:00:00:00:00", EtherType: ethertype.Default, Ports: transport.PortRange{Lo: 1024, Hi: 2047}, Held: true}
	fresh := held
	fresh.Held, fresh.Interface = false, "no such interface"
	odd, backwards := fresh, fresh
	odd.EtherType = unix.ETH_P_IP
	backwards.Ports = transport.PortRange{Lo: 2, Hi: 1}
	for name, tt := range map[string]struct {
		octets []byte
		shown  bool
		want   agent.Refusal // "": no reply
	}{
		"nothing":              {nil, false, ""},
		"half a length":        {[]byte{0, 0}, false, ""},
		"no body":              {[]byte{0, 0, 0, 9}, false, ""},
		"too long":             {framed(make([]byte, agent.MaxRequest+1)), false, ""},
		"endless":              {[]byte{0xff, 0xff, 0xff, 0xff, 'x'}, true, ""},
		"no JSON":              {framed([]byte("hello")), true, ""},
		"another type of JSON": {framed([]byte(`[1, 2]`)), false, ""},
		"ports out of range":   {framed([]byte(`{"Version":1,"Ports":{"Lo":70000}}`)), false, ""},
		"another version":      {text(agent.Request{Version: 99}), false, agent.Invalid},
		"another EtherType":    {text(odd), false, agent.Denied},
		"ports backwards":      {text(backwards), false, agent.Invalid},
		"no such interface":    {text(fresh), false, agent.Elsewhere},
		"held without sockets": {text(held), false, agent.Invalid},
		"sockets without held": {text(fresh), true, agent.Invalid},
		"held by a pipe":       {text(held), true, ""},
	} {
		var shown [2]int
		if err := unix.Pipe2(shown[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
			t.Fatal(err)
		}
		fds := shown[:]
		if !tt.shown {
			fds = nil
		}
		r, err := request(t, path, tt.octets, fds...)
		unix.Close(shown[1])
		pipe := os.NewFile(uintptr(shown[0]), "pipe")
		switch {
		case name == "held by a pipe": // the loopback may be called otherwise here
			if err != nil || r.Refusal != agent.Invalid && r.Refusal != agent.Elsewhere {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		case tt.want != "" && (err != nil || r.Refusal != tt.want), tt.want == "" && err == nil:
			t.Errorf("%s: %+v, %v, want %q", name, r, err, tt.want)
		}
		answers(t, path)
		// The agent has closed what was shown: nobody holds the end to write.
		pipe.SetReadDeadline(time.Now().Add(patience))
		if n, err := pipe.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: %d octets, %v, want the end of the pipe", name, n, err)
		}
		pipe.Close()
	}
}

// FuzzRequest: whatever comes as a request, no sockets are given, and the next one is
// answered. The interface does not exist, which nothing in a request can change.
func FuzzRequest(f *testing.F) {
	body, err := json.Marshal(&agent.Request{Version: agent.Version, Interface: "bob0", Index: 7, MAC: "02:00:00:00:00:01", EtherType: ethertype.Default, Held: true, Long: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(framed(body))
	f.Add(framed([]byte(`{"Version":1,"EtherType":34997,"Ports":{"Lo":1024,"Hi":2047}}`)))
	f.Add([]byte{0, 0, 0, 2, '{', '}'})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	s := &Server{cfg: Config{EtherTypes: []ethernet.EtherType{ethertype.Default}, Interfaces: []string{"no-such-interface"}, MaxBlocks: 1, Policy: func() (Policy, error) { return Policy{all: true}, nil }}, held: map[block]uint32{}}
	f.Fuzz(func(t *testing.T, octets []byte) {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		there := os.NewFile(uintptr(fds[1]), "program")
		file := os.NewFile(uintptr(fds[0]), "agent")
		here, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		defer here.Close()
		if len(octets) > 4*agent.MaxRequest { // more fits no socket's buffer for sure
			octets = octets[:4*agent.MaxRequest]
		}
		there.Write(octets)
		there.Close()
		var r agent.Request
		got, err := agent.Read(here.(*net.UnixConn), &r, agent.MaxRequest)
		agent.CloseAll(got)
		if err != nil {
			return
		}
		if grant, refusal, err := s.decide(&r, &unix.Ucred{Uid: 1, Gid: 1}, nil); err == nil || refusal == "" || grant != nil {
			t.Errorf("%+v: granted %+v, refusal %q, %v", r, grant, refusal, err)
		}
	})
}
