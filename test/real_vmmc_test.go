package test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/lab"
	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/bobnet-go/bobnet/vmmc"
	"golang.org/x/sys/unix"
)

// What a process of VMMC finds in its environment: its number and its user, if it is not
// root's.
const (
	numberEnv = "BOBNET_TEST_NUMBER"
	userEnv   = "BOBNET_TEST_USER"
)

// otherUser is a user that is not root.
const otherUser = 1234

// hasUser reports whether a user is one of this user namespace.
func hasUser(t *testing.T, uid int) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var first, outside, count int
		if _, err := fmt.Sscan(line, &first, &outside, &count); err == nil && uid >= first && uid-first < count {
			return true
		}
	}
	return false
}

// vmmcSize is how many bytes an export has: a write of all takes many frames.
const vmmcSize = 1 << 20

// vmmcRole is a process that does what the lines of its standard input say, and prints a
// line for each.
func vmmcRole(ctx context.Context) error {
	number, err := strconv.Atoi(os.Getenv(numberEnv))
	if err != nil {
		return err
	}
	nic, err := vipl.Open(ctx, &vipl.Config{Interface: lab.Interface, Driver: "ring"})
	if err != nil {
		return err
	}
	defer nic.Close()
	if user := os.Getenv(userEnv); user != "" {
		uid, err := strconv.Atoi(user)
		if err == nil {
			err = unix.Setuid(uid)
		}
		if err != nil {
			return err
		}
	}
	// An hour is so long that who hears of a death has been told by a daemon.
	p, err := vmmc.Open(ctx, &vmmc.Config{NIC: nic, Process: uint32(number), PeerTimeout: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer p.Close()
	r := &vmmcProcess{p: p, exports: map[uint32]*vmmc.Export{}}
	fmt.Println("open")
	for s := bufio.NewScanner(os.Stdin); s.Scan(); {
		said, err := r.do(ctx, strings.Fields(s.Text()))
		if err != nil {
			return fmt.Errorf("%s: %w", s.Text(), err)
		}
		fmt.Println(said)
	}
	return nil
}

type vmmcProcess struct {
	p       *vmmc.Process
	exports map[uint32]*vmmc.Export
	imp     *vmmc.Import
	ended   chan error // of the stream
}

// do is one line.
func (r *vmmcProcess) do(ctx context.Context, words []string) (said string, err error) {
	var n [2]uint32
	for i, word := range words[1:] {
		v, err := strconv.ParseUint(word, 10, 32)
		if err != nil {
			return "", err
		}
		n[i] = uint32(v)
	}
	switch words[0] {
	case "export", "importers", "await", "empty":
		return r.exporting(ctx, words[0], n)
	}
	return r.importing(ctx, words[0], n)
}

// exporting is a line about an export, n[0].
func (r *vmmcProcess) exporting(ctx context.Context, word string, n [2]uint32) (said string, err error) {
	switch word {
	case "export": // number, user
		r.exports[n[0]], err = r.p.Export(make([]byte, vmmcSize), n[0], vmmc.Policy{Users: []uint32{n[1]}}, nil)
		return "exported", err
	case "importers": // number, how many to wait for
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for len(r.exports[n[0]].Importers()) != int(n[1]) && ctx.Err() == nil {
			<-tick.C
		}
		return "importers", ctx.Err()
	case "await": // number, what its first word is to be
		buf := r.exports[n[0]].Bytes()
		for old := uint32(0); old != n[1] && err == nil; {
			old, err = r.p.WaitWord(ctx, vmmc.Word(buf, 0), old)
		}
		return "arrived", err
	case "empty": // number: nothing has come
		buf := r.exports[n[0]].Bytes()
		for at := 0; at < len(buf); at += vmmc.WordSize {
			if atomic.LoadUint32(vmmc.Word(buf, at)) != 0 {
				return fmt.Sprintf("byte %d was written", at), nil
			}
		}
		return "empty", nil
	}
	return "", errors.New("no such line")
}

// importing is a line about the import.
func (r *vmmcProcess) importing(ctx context.Context, word string, n [2]uint32) (said string, err error) {
	switch word {
	case "import": // process, number
		r.imp, err = r.p.Import(ctx, vmmc.Name{Process: n[0], ID: n[1]})
		if errors.Is(err, vmmc.ErrDenied) {
			return "denied", nil
		}
		return "imported", err
	case "look": // process, number: imports it for a moment
		i, err := r.p.Import(ctx, vmmc.Name{Process: n[0], ID: n[1]})
		if err != nil {
			return "", err
		}
		return "seen", i.Unimport(ctx)
	case "send": // a word
		return "sent", r.p.SendMsg(ctx, []byte{byte(n[0]), 0, 0, 0}, r.imp.Addr())
	case "stream": // writes all there is, again and again
		r.ended = make(chan error, 1)
		begun := make(chan struct{}, 1)
		go func(to vmmc.ProxyAddr, ended chan error) {
			src := make([]byte, vmmcSize)
			src[0] = 77
			for {
				if err := r.p.SendMsg(ctx, src, to); err != nil {
					ended <- err
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
			}
		}(r.imp.Addr(), r.ended)
		<-begun
		return "streaming", nil
	case "goes": // reports whether the stream goes on
		select {
		case err := <-r.ended:
			return err.Error(), nil
		default:
			return "streaming", nil
		}
	case "fails": // waits for the stream's end
		if err := <-r.ended; !errors.Is(err, vmmc.ErrPeer) || !errors.Is(r.imp.Done(), vmmc.ErrPeer) {
			return "", fmt.Errorf("the stream has ended by %w, the import by %w", err, r.imp.Done())
		}
		return "failed", nil
	}
	return "", errors.New("no such line")
}

// vmmcLab is a lab of two nodes.
type vmmcLab struct {
	*lab.Lab
	t *testing.T
}

// vmmcPlayer is a process in it.
type vmmcPlayer struct {
	*player
	t  *testing.T
	in *os.File
}

func (l *vmmcLab) open(rank, number int, env ...string) *vmmcPlayer {
	l.t.Helper()
	return l.start(rank, "vmmc", "open", append(env, fmt.Sprintf("%s=%d", numberEnv, number))...)
}

// start plays a role, which says a line when it is ready.
func (l *vmmcLab) start(rank int, role, ready string, env ...string) *vmmcPlayer {
	l.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		l.t.Fatal(err)
	}
	p := &vmmcPlayer{t: l.t, in: w, player: playOne(l.t, l.Lab, rank, &exec.Cmd{Args: []string{role}, Stdin: r}, append(env, roleEnv+"="+role)...)}
	r.Close()
	l.t.Cleanup(func() { w.Close() })
	p.expect(ready)
	return p
}

// daemon starts the daemon of a node.
func (l *vmmcLab) daemon(rank int) *player {
	l.t.Helper()
	p := playOne(l.t, l.Lab, rank, &exec.Cmd{Path: filepath.Join(commands(l.t), "bobnet"), Args: []string{"bobnet", "daemon", "-i", lab.Interface}})
	if line := p.line(l.t); !strings.Contains(line, l.MAC(rank).String()) {
		l.t.Fatalf("the daemon of %v says %q", l.MAC(rank), line)
	}
	return p
}

// do has the process do a line, and wants its answer.
func (p *vmmcPlayer) do(line, want string) {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	p.expect(want)
}

func (p *vmmcPlayer) expect(want string) {
	p.t.Helper()
	if got := p.line(p.t); got != want {
		p.t.Fatalf("the process says %q, want %q; %s", got, want, &p.stderr)
	}
}

// leave ends the process in order.
func (p *vmmcPlayer) leave() {
	p.t.Helper()
	p.in.Close()
	p.end(p.t)
}

func newVMMCLab(t *testing.T) *vmmcLab { return &vmmcLab{newLab(t, lab.Config{N: 2}), t} }

// TestVMMCUsers: a policy by user goes by the user whom the kernel tells the daemon of the
// importer's node, and refuses where that one has none.
func TestVMMCUsers(t *testing.T) {
	l := newVMMCLab(t)
	if !hasUser(t, otherUser) {
		need.Skip(t, "root, to be two users: user %d is not one of this user namespace", otherUser)
	}
	here := l.daemon(0)
	p := l.open(0, 1)
	p.do("export 1 0", "exported")
	p.do(fmt.Sprintf("export 2 %d", otherUser), "exported")
	stranger := l.open(1, 4)
	stranger.do("import 1 1", "denied")
	there := l.daemon(1)
	root, other := l.open(1, 2), l.open(1, 3, fmt.Sprintf("%s=%d", userEnv, otherUser))
	root.do("import 1 1", "imported")
	root.do("import 1 2", "denied")
	other.do("import 1 1", "denied")
	other.do("import 1 2", "imported")
	other.do("send 5", "sent")
	p.do("await 2 5", "arrived")
	for _, x := range []*vmmcPlayer{stranger, root, other, p} {
		x.leave()
	}
	for _, d := range []*player{here, there} {
		d.Signal(unix.SIGTERM)
		if <-d.Done(); d.Code() != 128+int(unix.SIGTERM) {
			t.Errorf("a daemon ended with code %d: %s", d.Code(), &d.stderr)
		}
	}
	noSockets(t, l.Lab)
}

// TestVMMCKilled: kill -9 of both daemons, of the exporter and of the importer while data
// is under way, and their start with the same number. The daemons' ends cut nothing, the
// processes' are told at once as typed errors, and no old import reaches the new process.
func TestVMMCKilled(t *testing.T) {
	l := newVMMCLab(t)
	daemons := []*player{l.daemon(0), l.daemon(1)}
	p, q := l.open(0, 1), l.open(1, 2)
	p.do("export 1 0", "exported")
	q.do("import 1 1", "imported")
	q.do("stream", "streaming")
	for rank, d := range daemons {
		kill(t, d.Proc)
		q.do("goes", "streaming")
		daemons[rank] = l.daemon(rank)
	}
	p.do("export 2 0", "exported")
	third := l.open(1, 3)
	third.do("import 1 2", "imported") // by what the new daemons know
	third.do("send 9", "sent")
	p.do("await 2 9", "arrived")
	q.do("look 1 2", "seen") // q, too, has met the new daemon of its node
	q.do("goes", "streaming")

	kill(t, p.Proc)
	q.do("fails", "failed")
	p = l.open(0, 1)
	p.do("export 1 0", "exported")
	p.do("empty 1", "empty")
	q.do("import 1 1", "imported")
	p.do("importers 1 1", "importers")
	q.do("stream", "streaming")

	kill(t, q.Proc)
	p.do("importers 1 0", "importers")
	q = l.open(1, 2)
	q.do("import 1 1", "imported")
	q.do("send 8", "sent")
	p.do("await 1 8", "arrived")
	for _, x := range []*vmmcPlayer{p, q, third} {
		x.leave()
	}
	for _, d := range daemons {
		kill(t, d.Proc)
	}
	noSockets(t, l.Lab)
}
