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
	"unsafe"

	"github.com/bobnet-go/bobnet/ethertype"
	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/logtest"
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

// request sends bytes, with descriptors, and no more after them. It returns the reply, if
// there is one.
func request(t testing.TB, path string, raw []byte, fds ...int) (r agent.Reply, err error) {
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
	if len(raw) > 0 { // the server may close first
		c.WriteMsgUnix(raw, oob, nil)
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
		raw   []byte
		shown bool
		want  agent.Refusal // "": no reply
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
		r, err := request(t, path, tt.raw, fds...)
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
			t.Errorf("%s: %d bytes, %v, want the end of the pipe", name, n, err)
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
	f.Fuzz(func(t *testing.T, raw []byte) {
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
		if len(raw) > 4*agent.MaxRequest { // more fits no socket's buffer for sure
			raw = raw[:4*agent.MaxRequest]
		}
		there.Write(raw)
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

// TestAskLate: an answer that comes late is taken for none to another question, and until it
// comes nothing is asked.
func TestAskLate(t *testing.T) {
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
		c.SetDeadline(time.Now().Add(patience))
		ends[i] = c.(*net.UnixConn)
	}
	p := newProgram(ends[0], &unix.Ucred{})
	if !p.question(agent.Metrics) || p.question(agent.Dump) {
		t.Fatal("a second question is sent before the first is answered, or the first is not")
	}
	if _, err := p.Ask(agent.Dump); !errors.Is(err, ErrSilent) {
		t.Errorf("a program that has not answered: %v", err)
	}
	if !p.handleAnswer([]byte("metrics")) || p.handleAnswer([]byte("more")) {
		t.Error("an answer that is due is not taken, or one that is not")
	}
	got := make(chan string, 1)
	go func() {
		body, err := p.Ask(agent.Dump)
		got <- string(body) + "/" + errorText(err)
	}()
	for _, want := range []string{agent.Metrics, agent.Dump} {
		var q agent.Question
		if _, err := agent.Read(ends[1], &q, agent.MaxRequest); err != nil || q.What != want {
			t.Fatalf("asked for %q, %v, want %q", q.What, err, want)
		}
	}
	p.handleAnswer([]byte("dump"))
	if body := <-got; body != "dump/" {
		t.Errorf("the answer is %q", body)
	}
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}

// rawSockaddrPkt is struct sockaddr_pkt, the address that a socket of type SOCK_PACKET sends to.
type rawSockaddrPkt struct {
	family   uint16
	device   [14]byte
	protocol uint16
}

// sendPacket sends a frame from an interface by an address of the socket's kind.
func sendPacket(fd, index int, name string, protocol uint16, frame []byte, flags int, control []byte) error {
	protocol = protocol<<8 | protocol>>8
	if typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || typ != unix.SOCK_PACKET {
		_, err := unix.SendmsgN(fd, frame, control, &unix.SockaddrLinklayer{Ifindex: index, Protocol: protocol}, flags)
		return err
	}
	to := rawSockaddrPkt{family: unix.AF_PACKET, protocol: protocol}
	copy(to.device[:len(to.device)-1], name)
	iov := unix.Iovec{Base: unsafe.SliceData(frame)}
	iov.SetLen(len(frame))
	hdr := unix.Msghdr{Name: (*byte)(unsafe.Pointer(&to)), Namelen: uint32(unsafe.Sizeof(to)), Iov: &iov, Control: unsafe.SliceData(control)}
	hdr.SetIovlen(1)
	hdr.SetControllen(len(control))
	if _, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&hdr)), uintptr(flags)); errno != 0 {
		return errno
	}
	return nil
}

// bindPacket binds a socket to an interface and a protocol by an address of the socket's kind. That
// of a SOCK_PACKET socket has the protocol that the socket was opened with.
func bindPacket(fd, index int, protocol uint16) error {
	typ, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || typ != unix.SOCK_PACKET {
		return unix.Bind(fd, packetAddress(index, protocol))
	}
	device, err := net.InterfaceByIndex(index)
	if err != nil {
		return err
	}
	to := rawSockaddrPkt{family: unix.AF_PACKET}
	copy(to.device[:len(to.device)-1], device.Name)
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&to)), unsafe.Offsetof(to.protocol)); errno != 0 {
		return errno
	}
	return nil
}

// TestLogHandlerBlocks: a handler of log lines that blocks keeps nobody from an answer.
func TestLogHandlerBlocks(t *testing.T) {
	lines, block := make(chan struct{}, 1), make(chan struct{})
	path := logging(t, slog.New(logtest.Handler(func(string) {
		lines <- struct{}{}
		<-block
	})))
	t.Cleanup(func() { close(block) }) // before the server is closed
	answers(t, path)
	<-lines
	for range 3 {
		answers(t, path)
	}
}
