package test

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/internal/lab"
	"golang.org/x/sys/unix"
)

var daemonServes = regexp.MustCompile(`at=http://(\S+)/metrics`)

// TestDaemonSeenFromOutside: bobnet daemon serves metrics of the node's processes, and SIGQUIT
// has it print them and go on.
func TestDaemonSeenFromOutside(t *testing.T) {
	l := newVMMCLab(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	d, err := l.Start(0, &exec.Cmd{Path: filepath.Join(commands(t), "bobnet"), Stderr: w,
		Args: []string{"bobnet", "-v", "daemon", "-i", lab.Interface, "--metrics", "127.0.0.1:0"}})
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(r)
	heard := func(want func(line string) bool) string {
		t.Helper()
		for said.Scan() {
			if want(said.Text()) {
				return said.Text()
			}
		}
		t.Fatalf("the daemon ended with code %d", d.Code())
		return ""
	}
	addr := daemonServes.FindStringSubmatch(heard(daemonServes.MatchString))[1]
	p := l.open(0, 1)
	p.do("export 5 0", "exported")
	p.do("look 1 5", "seen")
	if err := l.Exec(0, func() error { return scrapeDaemon(t, addr) }); err != nil {
		t.Fatal(err)
	}
	if err := d.Signal(unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	heard(func(line string) bool { return strings.HasPrefix(line, "vmmc daemon of node ") })
	heard(func(line string) bool { return strings.HasPrefix(strings.TrimSpace(line), "exporters found 1,") })
	p.do("look 1 5", "seen") // it goes on
	p.leave()
	if err := d.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, r)
	<-d.Done()
	noSockets(t, l.Lab)
}

// scrapeDaemon reads a daemon's metrics, in its namespace.
func scrapeDaemon(t *testing.T, addr string) error {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /metrics HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	text, err := io.ReadAll(conn)
	for _, want := range []string{"bobnet_daemon_processes{", "bobnet_daemon_exports{", "bobnet_daemon_matches_total{", "bobnet_nic_info{"} {
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	return err
}
