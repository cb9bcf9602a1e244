package perf

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// libtirpc is the mode of the stack vrpc that does not use Bobnet. Both ends are a C program that
// uses the system's RPC library over TCP.
const libtirpc = "libtirpc"

//go:embed c/libtirpc.c
var libtirpcSource []byte

// BuildLibtirpc builds the C program that Plan.Libtirpc names, in a directory, and returns its
// path. The error names missing packages.
func BuildLibtirpc(ctx context.Context, dir string) (program string, err error) {
	program = filepath.Join(dir, "libtirpc")
	cmd := exec.CommandContext(ctx, "cc", "-x", "c", "-O2", "-I/usr/include/tirpc", "-o", program, "-", "-ltirpc")
	cmd.Stdin = bytes.NewReader(libtirpcSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return "", fmt.Errorf("perf: build a C program with libtirpc: %w: %s (try: apt-get install gcc libc6-dev libtirpc-dev)", err, first)
	}
	return program, nil
}

// libtirpcCases returns the cases of libtirpc, whose calls are not concurrent.
func libtirpcCases(p *Plan, test string, mtu, size int) []Case {
	if p.Libtirpc == "" || test != Latency {
		return nil
	}
	return []Case{{Stack: "vrpc", Test: test, Mode: libtirpc, Wait: Block, MTU: mtu, Size: size}}
}

// cConn is one end of a libtirpc connection: a C program.
type cConn struct {
	cmd  *exec.Cmd      // nil if it has not been started
	in   io.WriteCloser // closing it ends the program
	out  *bufio.Reader
	said bytes.Buffer // the program's standard error
	rtt  []byte
	over bool // Wait has returned
}

// openLibtirpc starts the program of a half. The server's program prints its port.
func openLibtirpc(ctx context.Context, h *Half, c Case) (Conn, error) {
	if !h.IP.IsValid() {
		return nil, errNoIP
	}
	if h.Libtirpc == "" {
		return nil, errors.New("perf: libtirpc is measured with --local only")
	}
	r := new(cConn)
	if h.server {
		err := r.startProgram(h.Libtirpc, "server", h.IP.String())
		if err == nil {
			err = r.announce(ctx, h)
		}
		return r.opened(err)
	}
	address, err := h.Exchange("")
	if err != nil {
		return nil, err
	}
	ip, port, err := net.SplitHostPort(address)
	if err == nil {
		err = r.startProgram(h.Libtirpc, "client", ip, port, strconv.Itoa(c.Size))
	}
	return r.opened(err)
}

func (r *cConn) opened(err error) (Conn, error) {
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// startProgram starts the program.
func (r *cConn) startProgram(program string, args ...string) (err error) {
	cmd := exec.Command(program, args...)
	cmd.Stderr = &r.said
	if r.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	r.out = bufio.NewReaderSize(out, 64<<10)
	if err = cmd.Start(); err == nil {
		r.cmd = cmd
	}
	return err
}

// announce reads the server's port and sends the address to the client half.
func (r *cConn) announce(ctx context.Context, h *Half) error {
	defer context.AfterFunc(ctx, r.kill)()
	line, err := r.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("perf: read the port of libtirpc's server: %w", err)
	}
	_, err = h.Exchange(net.JoinHostPort(h.IP.String(), strings.TrimSpace(line)))
	return err
}

func (r *cConn) kill() { _ = r.cmd.Process.Kill() } // Kill fails if the program has ended

// PingPong implements Conn. The C program measures the times.
func (r *cConn) PingPong(ctx context.Context, rtt []int64) error {
	defer context.AfterFunc(ctx, r.kill)()
	const each = 8 // bytes
	if need := each * len(rtt); len(r.rtt) < need {
		r.rtt = make([]byte, need)
	}
	_, err := fmt.Fprintln(r.in, len(rtt))
	if err == nil {
		_, err = io.ReadFull(r.out, r.rtt[:each*len(rtt)])
	}
	if err != nil {
		return errors.Join(fmt.Errorf("perf: read the times of libtirpc's calls: %w", err), r.Close())
	}
	for i := range rtt {
		rtt[i] = int64(binary.NativeEndian.Uint64(r.rtt[each*i:]))
	}
	return nil
}

// Echo implements Conn. It does nothing, because the C program answers until it is closed.
func (r *cConn) Echo(context.Context, int) error { return nil }

// Stream is part of Conn.
func (r *cConn) Stream(context.Context, int) (int, error) { return 0, errNoStream }

// Sink is part of Conn.
func (r *cConn) Sink(context.Context, int) error { return errNoStream }

var errNoStream = errors.New("perf: libtirpc has only the test latency, because its calls follow one another")

// Counters implements Conn. It does not read the kernel's count of retransmissions.
func (r *cConn) Counters() Counters { return Counters{} }

// Close implements Conn: it ends the program, and returns the error that the program has printed.
func (r *cConn) Close() error {
	if r.in != nil {
		r.in.Close()
	}
	if r.cmd == nil || r.over {
		return nil
	}
	r.over = true
	r.kill()
	_ = r.cmd.Wait() // always an error: the program was killed
	if r.said.Len() > 0 {
		return fmt.Errorf("perf: libtirpc: %s", strings.TrimSpace(r.said.String()))
	}
	return nil
}
