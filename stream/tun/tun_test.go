package tun_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/need"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/stream/tun"
	"github.com/bobnet-go/bobnet/vipl"
	"golang.org/x/sys/unix"
)

// host is a Tun that runs on one side of a veth pair.
type host struct {
	*tun.Tun
	end  context.CancelFunc
	done chan error
}

// start starts a host with the addresses 10.9.0.N and fd09::N on a side; N is side + 1.
func start(t testing.TB, p *vethtest.Pair, side int, cfg tun.Config) *host {
	t.Helper()
	cfg.VIPL.Interface = vethtest.Name
	if cfg.Addrs == nil {
		cfg.Addrs = []netip.Prefix{
			netip.MustParsePrefix(fmt.Sprintf("10.9.0.%d/24", side+1)), netip.MustParsePrefix(fmt.Sprintf("fd09::%d/64", side+1)),
		}
	}
	h := &host{done: make(chan error, 1)}
	err := p.In(side, func() (err error) {
		h.Tun, err = tun.Open(t.Context(), &cfg)
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		need.Skip(t, "TUN devices: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, h.end = context.WithCancel(context.Background())
	go func() { h.done <- h.Run(ctx) }()
	t.Cleanup(func() { h.stop(t) })
	return h
}

// stop ends the host and removes its interface.
func (h *host) stop(t testing.TB) {
	if h.end == nil {
		return
	}
	h.end()
	h.end = nil
	if err := <-h.done; err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

// pair starts two hosts.
func pair(t testing.TB, mtu int, cfg tun.Config) (p *vethtest.Pair, hosts [2]*host) {
	t.Helper()
	p = vethtest.New(t, mtu)
	for side := range hosts {
		hosts[side] = start(t, p, side, cfg)
	}
	return p, hosts
}

// command prepares a program on a side; it is killed if it takes a minute.
func command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		need.Skip(t, "%s: %v", name, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, path, args...)
}

// run runs a program on a side, and returns what it has printed.
func run(t testing.TB, p *vethtest.Pair, side int, name string, args ...string) (out string, err error) {
	t.Helper()
	cmd := command(t, name, args...)
	p.In(side, func() error {
		var b []byte
		b, err = cmd.CombinedOutput()
		out = string(b)
		return nil
	})
	return out, err
}

// TestPing: ping reaches the other host over IPv4 and IPv6, also with packets of 60,000 bytes. It
// gets an error for an address that no host has, and reaches a host that has been restarted.
func TestPing(t *testing.T) {
	p, hosts := pair(t, 1500, tun.Config{})
	for _, args := range [][]string{{"10.9.0.2"}, {"fd09::2"}, {"-s", "60000", "-M", "do", "10.9.0.2"}} {
		if out, err := run(t, p, 0, "ping", append([]string{"-c", "3", "-i", "0.02", "-W", "20"}, args...)...); err != nil || !strings.Contains(out, " 0% packet loss") {
			t.Errorf("ping %v: %v\n%s", args, err, out)
		}
	}
	out, err := run(t, p, 0, "ping", "-c", "1", "-W", "20", "10.9.0.77")
	if err == nil || !strings.Contains(out, "Destination Host Unreachable") {
		t.Errorf("ping of nobody: %v\n%s", err, out)
	}
	s := hosts[0].Snapshot()
	if len(s.Neighbours) == 0 || s.PacketsSent < 9 || s.Counts.Unreachable == 0 || s.Counts.Overflow+s.Counts.Spoofed+s.Counts.Misdirected > 0 {
		t.Errorf("%+v", s)
	}
	hosts[1].stop(t)
	hosts[1] = start(t, p, 1, tun.Config{})
	if out, err := run(t, p, 0, "ping", "-c", "1", "-w", "30", "10.9.0.2"); err != nil {
		t.Errorf("ping of a host that was started anew: %v\n%s", err, out)
	}
}

// TestIperf: iperf3 carries data both ways, by TCP and UDP, over a segment with short frames.
func TestIperf(t *testing.T) {
	p, _ := pair(t, 1500, tun.Config{})
	much := "200M"
	if !need.Full() {
		much = "20M"
	}
	for _, args := range [][]string{{"-n", much}, {"-n", much, "-R"}, {"-u", "-b", "200M", "-n", "20M"}} {
		result, err := iperf(t, p, "10.9.0.2", args...)
		if err != nil || max(result.End.SumReceived.Bytes, result.End.Sum.Bytes) < 10e6 {
			t.Errorf("iperf3 %v: %v %+v", args, err, result)
		}
	}
}

// measured is the output of iperf3.
type measured struct {
	Error string
	End   struct {
		SumReceived struct {
			Bytes         float64
			BitsPerSecond float64 `json:"bits_per_second"`
		} `json:"sum_received"`
		Sum struct{ Bytes float64 }
	}
}

// iperf measures from side 0 to an address of side 1.
func iperf(t testing.TB, p *vethtest.Pair, address string, args ...string) (result measured, err error) {
	t.Helper()
	server := command(t, "iperf3", "-s", "-1", "-B", address, "--forceflush")
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.In(1, server.Start); err != nil {
		t.Fatal(err)
	}
	defer server.Wait()
	defer server.Process.Kill()
	heard(t, out, "listening")
	go io.Copy(io.Discard, out)
	text, err := run(t, p, 0, "iperf3", append([]string{"-J", "-c", address}, args...)...)
	if json.Unmarshal([]byte(text), &result); err == nil && result.Error != "" {
		err = errors.New(result.Error)
	}
	return result, err
}

// heard waits until a program has printed the text what.
func heard(t testing.TB, r io.Reader, what string) {
	t.Helper()
	b := make([]byte, 1000)
	for said := ""; !strings.Contains(said, what); {
		n, err := r.Read(b)
		if err != nil {
			t.Fatalf("it has ended (%v), and said %q, not %q", err, said, what)
		}
		said += string(b[:n])
	}
}

// TestSSH: a command runs on the other host by ssh.
func TestSSH(t *testing.T) {
	if os.Getuid() != 0 {
		need.Skip(t, "root, to run sshd")
	}
	p, _ := pair(t, 9000, tun.Config{})
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"host", "user"} {
		if out, err := command(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file(name)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	server := command(t, "sshd", "-D", "-e", "-f", "/dev/null", "-p", "2222", "-h", file("host"), "-o", "ListenAddress=10.9.0.2",
		"-o", "AuthorizedKeysFile="+file("user.pub"), "-o", "StrictModes=no", "-o", "PermitRootLogin=yes", "-o", "PidFile=none", "-o", "UsePAM=no")
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.In(1, server.Start); err != nil {
		t.Fatal(err)
	}
	defer func() {
		server.Process.Kill()
		server.Wait()
	}()
	heard(t, log, "Server listening")
	go io.Copy(io.Discard, log)
	out, err := run(t, p, 0, "ssh", "-F", "none", "-i", file("user"), "-p", "2222", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
		"-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "root@10.9.0.2", "echo it is $SSH_CONNECTION; head -c 3000000 /dev/zero | wc -c")
	if err != nil || !strings.Contains(out, "it is 10.9.0.1 ") || !strings.Contains(out, "3000000") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTaken: start fails with an address that another host has, and the error names this host. It
// also fails with addresses that no host can have, an MTU out of range, and an existing interface.
func TestTaken(t *testing.T) {
	p, _ := pair(t, 1500, tun.Config{Device: "ip0"})
	open := func(cfg tun.Config) error {
		return p.In(1, func() error {
			cfg.VIPL = vipl.Config{Interface: vethtest.Name}
			h, err := tun.Open(t.Context(), &cfg)
			if err == nil {
				err = h.Close()
			}
			return err
		})
	}
	prefix := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	for _, c := range []struct {
		cfg  tun.Config
		is   error
		says string
	}{
		{tun.Config{Addrs: prefix("10.9.0.1/24")}, tun.ErrTaken, vethtest.MACs[0].String()},
		{tun.Config{Addrs: prefix("224.0.0.1/24")}, tun.ErrConfig, "not a host address"},
		{tun.Config{}, tun.ErrConfig, "such as 10.9.0.1/24"},
		{tun.Config{Addrs: prefix("10.9.0.3/24"), MTU: 70000}, tun.ErrConfig, "want 1280 to 65000"},
		{tun.Config{Addrs: prefix("10.9.0.3/24"), Device: "ip0"}, unix.EBUSY, "choose another name"},
		{tun.Config{Addrs: prefix("10.9.0.3/24"), Network: "a/b"}, tun.ErrConfig, "without a slash"},
		{tun.Config{Addrs: prefix("10.9.0.1/24"), Network: "other"}, nil, ""}, // another network may use the same address
	} {
		if err := open(c.cfg); !errors.Is(err, c.is) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %v that says %q", c.cfg, err, c.is, c.says)
		}
	}
}
