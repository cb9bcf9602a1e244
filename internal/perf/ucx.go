package perf

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ucxName is the name of ucxStack.
const ucxName = "ucx"

// ucxProgram is UCX's benchmark.
const ucxProgram = "ucx_perftest"

// FindUCX returns the path of ucx_perftest, for Plan.UCX. The error names the missing package.
func FindUCX() (program string, err error) {
	if program, err = exec.LookPath(ucxProgram); err != nil {
		return "", fmt.Errorf("perf: find UCX's benchmark: %w (try: apt-get install ucx-utils)", err)
	}
	return program, nil
}

// ucxStack is UCX, by its own benchmark: tagged messages between two processes of one host, which
// always spin. Each call of a Conn starts the benchmark on both halves.
type ucxStack struct{}

// ucxMessages is the least number of messages for which the benchmark is started.
const ucxMessages = 64

// ucxTests are the benchmark's names of the tests.
var ucxTests = map[string]string{Latency: "tag_lat", Bandwidth: "tag_bw", Rate: "tag_bw"}

// Cases is part of Stack.
func (ucxStack) Cases(p *Plan, test string, mtu, size int) []Case {
	if p.UCX == "" || ucxTests[test] == "" || !slices.Contains(p.Links, linkShm) || !slices.Contains(p.Waits, Spin) {
		return nil
	}
	return []Case{{Stack: ucxName, Test: test, Wait: Spin, Link: linkShm, MTU: mtu, Size: size}}
}

// ucxConn is one end: the address at which the benchmark's server listens.
type ucxConn struct {
	program string
	at      netip.AddrPort
	test    Case
	last    time.Duration // of the messages of the last call
}

// Open is part of Stack. The server chooses a free port.
func (ucxStack) Open(_ context.Context, h *Half, c Case) (Conn, error) {
	if !h.IP.IsValid() {
		return nil, errNoIP
	}
	u := &ucxConn{program: h.UCX, test: c}
	if !h.server {
		text, err := h.Exchange("")
		if err == nil {
			u.at, err = netip.ParseAddrPort(text)
		}
		return u, err
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(h.IP, 0).String())
	if err != nil {
		return nil, fmt.Errorf("perf: find a port for %s: %w", ucxProgram, err)
	}
	u.at = l.Addr().(*net.TCPAddr).AddrPort()
	l.Close()
	_, err = h.Exchange(u.at.String())
	return u, err
}

// run runs the benchmark and returns its output. Without arguments it is the server, which serves
// one client.
func (u *ucxConn) run(ctx context.Context, args ...string) ([]byte, error) {
	argv := append([]string{u.program, "-p", strconv.Itoa(int(u.at.Port()))}, args...)
	foreign := foreignProc()
	if foreign {
		argv = append([]string{"sh", "-c", ownProc}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if foreign {
		cmd.SysProcAttr = &unix.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	}
	cmd.Env = append(os.Environ(), "UCX_TLS="+cmp.Or(os.Getenv("UCX_TLS"), "sm,self"))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out // the benchmark logs to its standard output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("perf: %s: %w: %s", ucxProgram, err, ucxError(out.Bytes()))
	}
	return out.Bytes(), nil
}

// foreignProc reports whether /proc has the process numbers of another namespace than this process's.
// Local starts its halves so.
func foreignProc() bool {
	self, err := os.Readlink("/proc/self")
	return err == nil && self != strconv.Itoa(os.Getpid())
}

// ucxError returns the first error in the benchmark's output, without its time and source, or the
// first line.
func ucxError(out []byte) string {
	if _, text, found := bytes.Cut(out, []byte("ERROR ")); found {
		out = text
	}
	return firstLine(out)
}

// ucxFigures are the benchmark's results.
type ucxFigures struct {
	median float64 // microseconds: one way, or of a send
	mean   float64 // microseconds a message
}

// ucxWarmUp is the number of bytes that warm up the benchmark, in at most ucxWarmUps messages: UCX
// connects its transports during the first messages.
const (
	ucxWarmUp  = 64 << 20
	ucxWarmUps = 1000
)

// measure is the client's end of n messages. It waits for the server to listen.
func (u *ucxConn) measure(ctx context.Context, n int) (f ucxFigures, err error) {
	args := []string{u.at.Addr().String(), "-t", ucxTests[u.test.Test], "-s", strconv.Itoa(u.test.Size),
		"-n", strconv.Itoa(n), "-w", strconv.Itoa(min(ucxWarmUp/u.test.Size+1, ucxWarmUps)), "-f"}
	for {
		out, err := u.run(ctx, args...)
		if err == nil {
			return parseUCX(out)
		}
		if !strings.Contains(err.Error(), "refused") {
			return f, err
		}
		select {
		case <-ctx.Done():
			return f, err
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// parseUCX reads the last line of the benchmark's output: the number of messages, then the median
// and the mean time of one, in microseconds.
func parseUCX(out []byte) (f ucxFigures, err error) {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Fields(lines[len(lines)-1])
	if len(fields) < 3 {
		return f, fmt.Errorf("perf: read the result of %s: want numbers, found %q", ucxProgram, lines[len(lines)-1])
	}
	if f.median, err = strconv.ParseFloat(fields[1], 64); err == nil {
		f.mean, err = strconv.ParseFloat(fields[2], 64)
	}
	if err != nil {
		return f, fmt.Errorf("perf: read the result of %s: %w", ucxProgram, err)
	}
	return f, nil
}

// PingPong is part of Conn. The benchmark reports only the median, so every round trip gets it.
func (u *ucxConn) PingPong(ctx context.Context, rtt []int64) error {
	if len(rtt) == 0 {
		return nil
	}
	f, err := u.measure(ctx, len(rtt))
	for i := range rtt {
		rtt[i] = max(int64(2000*f.median), 1)
	}
	return err
}

// Echo is part of Conn.
func (u *ucxConn) Echo(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	_, err := u.run(ctx)
	return err
}

// Stream is part of Conn.
func (u *ucxConn) Stream(ctx context.Context, n int) (int, error) {
	f, err := u.measure(ctx, n)
	u.last = time.Duration(f.mean * float64(n) * 1e3)
	return n, err
}

// Sink is part of Conn.
func (u *ucxConn) Sink(ctx context.Context, n int) error { return u.Echo(ctx, n) }

// took returns the time of the messages of Stream, without that of starting the benchmark.
func (u *ucxConn) took() time.Duration { return u.last }

// Counters is part of Conn.
func (u *ucxConn) Counters() Counters { return Counters{} }

// Close is part of Conn.
func (u *ucxConn) Close() error { return nil }
