package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/internal/vethtest"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// background starts the command in namespace 0 of p until the test ends, and returns a
// function that waits for a line of its output which pattern matches.
func background(t *testing.T, p *vethtest.Pair, uid uint32, env []string, argv ...string) (await func(pattern string) []string, cmd *exec.Cmd) {
	t.Helper()
	cmd = exec.Command(argv[0], argv[1:]...)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = "/", w, w, append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	if err := p.In(0, cmd.Start); err != nil {
		t.Fatal(err)
	}
	w.Close()
	lines := bufio.NewReader(r)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		r.Close()
	})
	return func(pattern string) []string {
		t.Helper()
		r.SetReadDeadline(time.Now().Add(30 * time.Second))
		for seen := ""; ; {
			line, err := lines.ReadString('\n')
			seen += line
			if m := regexp.MustCompile(pattern).FindStringSubmatch(line); m != nil {
				return m
			}
			if err != nil {
				t.Fatalf("%q: %v; it printed %s", argv, err, seen)
			}
		}
	}, cmd
}

// getInside reads a page of a server in namespace 0.
func getInside(t *testing.T, p *vethtest.Pair, addr, path string) (page string) {
	t.Helper()
	err := p.In(0, func() error {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(30 * time.Second))
		fmt.Fprintf(c, "GET %s HTTP/1.0\r\n\r\n", path)
		text, err := io.ReadAll(c)
		page = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// TestAgent: programs of an ordinary user get their sockets from bobnet agent, which shows
// the metrics of all, also of one of root's that has sockets of its own, and of what is above
// their NICs, also to bobnet top, names one that does not answer, and dumps what they say.
func TestAgent(t *testing.T) {
	bobnet, p := copyForAll(t), vethtest.New(t, 1500)
	path := publicDir(t) + "/sock"
	if err := p.In(0, func() error {
		return netlink.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: 1}})
	}); err != nil {
		t.Fatal(err)
	}
	said, server := background(t, p, 0, nil, bobnet, "-v", "agent", "--allow", fmt.Sprintf("user:%d", nobody), "--socket", path, "--metrics", "127.0.0.1:0")
	addr := said(`at=http://(\S+)/metrics`)[1]
	said("^agent at " + path)
	env := []string{agent.EnvPath + "=" + path}
	var programs [3]*exec.Cmd
	for i, uid := range []uint32{nobody, nobody, 0} {
		var daemon func(string) []string
		daemon, programs[i] = background(t, p, uid, env, bobnet, "daemon", "--iface", vethtest.Name, "--socket", fmt.Sprintf("@bobnet-test-%d-%d", os.Getpid(), i))
		daemon("^daemon of node")
	}
	label := func(i, port int) string {
		return fmt.Sprintf(`pid="%d",port="%d",program="bobnet",uid="%d"}`, programs[i].Process.Pid, port, nobody)
	}
	answers := func(i, port, n int) string {
		return fmt.Sprintf(`bobnet_agent_program_answers{interface="bob0",%s %d`, label(i, port), n)
	}
	awaitPage(t, p, addr, "/metrics", answers(0, 1024, 1), answers(1, 2048, 1),
		`bobnet_nic_transmit_frames_total{interface="bob0",`+label(0, 1024), `bobnet_nic_transmit_frames_total{interface="bob0",`+label(1, 2048))
	own := fmt.Sprintf(`pid="%d",port="3072",program="bobnet",uid="0"}`, programs[2].Process.Pid)
	awaitPage(t, p, addr, "/metrics", daemonOf(programs[0], nobody), daemonOf(programs[1], nobody), daemonOf(programs[2], 0), `bobnet_nic_transmit_frames_total{interface="bob0",`+own,
		fmt.Sprintf(`bobnet_agent_program_answers{interface="",pid="%d",port="",program="bobnet",uid="0"} 1`, programs[2].Process.Pid))
	if page := getInside(t, p, addr, "/metrics"); strings.Count(page, "\nbobnet_nic_mtu_bytes{") != len(programs) {
		t.Errorf("not each NIC is there once:\n%s", page)
	}
	if page := getInside(t, p, addr, "/debug/bobnet"); strings.Count(page, "\n  NIC bob0 ") != len(programs) {
		t.Errorf("not each NIC is dumped once:\n%s", page)
	}
	awaitTop(t, p, bobnet, addr, fmt.Sprintf("pid=%d,program=bobnet,uid=%d ", programs[0].Process.Pid, nobody), fmt.Sprintf("pid=%d,program=bobnet,uid=%d ", programs[1].Process.Pid, nobody),
		" ring+agent", " 3 stations, ", "rates of ")
	if err := programs[0].Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awaitPage(t, p, addr, "/metrics", answers(0, 1024, 0), answers(1, 2048, 1), daemonOf(programs[1], nobody))
	awaitPage(t, p, addr, "/debug/bobnet", fmt.Sprintf("\nbobnet (process %d of user 0)\n  bobnet: process %[1]d at ", programs[2].Process.Pid), fmt.Sprintf("\nbobnet (process %d of user %d)\n", programs[1].Process.Pid, nobody), "\n  vmmc daemon of node ", fmt.Sprintf("no answer from the program: bobnet (process %d of user %d, ports 1024..2047 of bob0)", programs[0].Process.Pid, nobody), "\n  NIC bob0 ")
	if err := server.Process.Signal(unix.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	said("^bobnet agent: 3 programs report their state, 2 NICs use its sockets")
}

// daemonOf is the beginning of the line in the metrics of an agent for the node of a program that
// is a daemon.
func daemonOf(program *exec.Cmd, uid uint32) string {
	return fmt.Sprintf(`bobnet_daemon_processes{node="02:00:00:00:00:0a",pid="%d",program="bobnet",uid="%d"} 0`, program.Process.Pid, uid)
}

// awaitTop runs bobnet top on what is served at an address, with its output piped, until that
// has all that is wanted, in lines without control characters.
func awaitTop(t *testing.T, p *vethtest.Pair, bobnet, addr string, want ...string) {
	t.Helper()
	lacks, text := "", ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		cmd := exec.Command(bobnet, "top", "--discover=false", "--metrics", addr, "--interval", "50ms")
		err := p.In(0, func() error {
			out, err := cmd.CombinedOutput()
			text = string(out)
			return err
		})
		if err != nil || strings.ContainsAny(text, "\x1b\r\b") {
			t.Fatalf("bobnet top: %v\n%q", err, text)
		}
		lacks = ""
		for _, w := range want {
			if !strings.Contains(text, w) {
				lacks = w
			}
		}
		if lacks == "" {
			return
		}
	}
	t.Fatalf("bobnet top lacks %s:\n%s", lacks, text)
}

// awaitPage reads a page until it has all that is wanted: a program that is slow to answer is
// left out.
func awaitPage(t *testing.T, p *vethtest.Pair, addr, path string, want ...string) {
	t.Helper()
	page, lacks := "", ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		page, lacks = getInside(t, p, addr, path), ""
		for _, w := range want {
			if !strings.Contains(page, w) {
				lacks = w
			}
		}
		if lacks == "" {
			return
		}
	}
	t.Fatalf("%s lacks %s:\n%s", path, lacks, page)
}

// TestAgentReference: docs/metrics.md has the agent's own metric as the code does.
func TestAgentReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if cells[0] != "`bobnet_agent_program_answers`" || len(cells) != 4 {
			continue
		}
		want := prometheus.NewDesc(strings.Trim(cells[0], "`"), cells[3], strings.Split(cells[2], ", "), nil).String()
		if got := agentProgram.String(); got != want {
			t.Errorf("the code has %s, the documentation %s", got, want)
		}
		return
	}
	t.Error("docs/metrics.md does not have it")
}

// TestReadSnapshot: what a NIC says is read whole, also if it is closely packed.
func TestReadSnapshot(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		want := vipl.Snapshot{LinkErr: "none", Names: []string{"a", "b"}, Rest: &vipl.VISnapshot{Probes: 3}}
		for i := range n {
			want.VIs = append(want.VIs, vipl.VISnapshot{Probes: i, Pending: make([]vipl.PendingSend, vipl.PendingMax*(i%2))})
			if i%2 == 0 {
				want.VIs[i].Pending = nil
			}
		}
		body, err := json.Marshal(&want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readSnapshot(body); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%d VIs: %v, %d read", n, err, len(got.VIs))
		}
	}
}

// TestSnapshotMemory: the longest answers of a link, made to have as many VIs or sends as fit
// them, take a small multiple of their length all told, most of which is garbage at once.
func TestSnapshotMemory(t *testing.T) {
	many := func(before, one, after string) []byte {
		n := (agent.MaxAnswer - len(before) - len(after)) / (len(one) + 1)
		return []byte(before + strings.Repeat(one+",", n-1) + one + after)
	}
	for name, tt := range map[string]struct {
		body []byte
		most uint64
	}{
		"VIs":            {many(`{"VIs":[`, `{}`, `]}`), agent.MaxAnswer * 16},
		"no VIs at all":  {many(`{"VIs":[`, `0`, `]}`), agent.MaxAnswer * 16},
		"null":           {many(`{"VIs":[`, `null`, `]}`), agent.MaxAnswer * 16},
		"again":          {many(`{`, `"VIs":[{},{},{}]`, `}`), agent.MaxAnswer * 128}, // all told: each is dropped
		"sends":          {many(`{"VIs":[{"Pending":[`, `{}`, `]}]}`), agent.MaxAnswer * 96},
		"sends of Rest":  {many(`{"Rest":{"Pending":[`, `{}`, `]}}`), agent.MaxAnswer * 96},
		"what is no NIC": {many(`{"VIs":{"a":[`, `{}`, `]}}`), agent.MaxAnswer * 16},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := readSnapshot(tt.body)
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > tt.most {
			t.Errorf("%s: %d bytes take %d", name, len(tt.body), used)
		}
		if err == nil && (len(s.VIs) > len(tt.body)/viBytes || s.Rest != nil) {
			t.Errorf("%s: %d VIs of %d bytes", name, len(s.VIs), len(tt.body))
		}
	}
}

// TestBudget: a user's programs are left out when they have said too much together, and others'
// and root's are not.
func TestBudget(t *testing.T) {
	b := newBudget()
	alice, other, root := &nodeagent.Program{UID: 7, Tells: true}, &nodeagent.Program{UID: 8}, &nodeagent.Program{}
	for range agentUserBytes / agent.MaxAnswer {
		if err := b.charge(alice, agent.MaxAnswer); err != nil {
			t.Fatal(err)
		}
	}
	err := b.charge(alice, 1)
	if err == nil || !strings.Contains(err.Error(), "of user 7 would have 4194305 bytes") {
		t.Error(err)
	}
	if err := errors.Join(b.charge(other, agentUserBytes), b.charge(root, 2*agentUserBytes), b.charge(alice, 0)); err != nil {
		t.Error(err)
	}
	said := []*dto.MetricFamily{{Metric: make([]*dto.Metric, agentUserSeries)}, {Metric: make([]*dto.Metric, 1)}}
	if b.takeSeries(alice, said[:1]) != nil || b.takeSeries(alice, said[1:]) == nil || b.takeSeries(other, said[1:]) != nil {
		t.Error("series are not bounded by user")
	}
}

// bad is a program that answers every question of the agent with the same bytes, without end if
// endless is set.
type bad struct {
	conn    *net.UnixConn
	reply   []byte
	endless bool
}

// connectBad connects a program that tells.
func connectBad(t *testing.T, path string, b *bad) {
	t.Helper()
	var err error
	if b.conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close() })
	var r agent.Reply
	b.conn.SetDeadline(time.Now().Add(time.Minute))
	if err := agent.Write(b.conn, &agent.Request{Version: agent.Version, Tells: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.Read(b.conn, &r, agent.MaxRequest); err != nil || r.Refusal != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	go b.answer()
}

// answer answers until the agent ends the connection, or the test.
func (b *bad) answer() {
	for {
		var q agent.Question
		if _, err := agent.Read(b.conn, &q, agent.MaxRequest); err != nil {
			return
		}
		for {
			if _, err := b.conn.Write(b.reply); err != nil || !b.endless {
				break
			}
		}
	}
}

// message is an answer of the agent's protocol.
func message(body string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// oneNIC is a NIC that has sent frames.
type oneNIC uint64

func (n oneNIC) Snapshot() (s vipl.Snapshot) {
	s.Attributes.Name, s.Link.TxFrames = "bob0", uint64(n)
	return s
}

// TestAgentHostile: programs that answer the agent by too much, too little, nonsense, what is
// another's, or not at all keep neither the metrics nor the dump of others from its endpoint,
// and nothing of theirs stands under other names.
func TestAgentHostile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	s, err := nodeagent.Listen(nodeagent.Config{Path: path, Unguarded: true, Policy: func() (nodeagent.Policy, error) { return nodeagent.ParsePolicy("all") }})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(t.Context()) }()
	defer func() {
		s.Close()
		<-ended
	}()
	t.Setenv(agent.EnvPath, path)
	const others = `[{"Name":"bobnet_link_transmit_frames_total","Series":[{"Labels":{"interface":"bob0","port":"0","pid":"1","program":"init"},"Value":"666"}]},{"Name":"up","Series":[{"Value":"1"}]}]`
	deep, err := json.Marshal(strings.Repeat("[", 100000))
	if err != nil {
		t.Fatal(err)
	}
	all := []*bad{
		{reply: nil}, // says nothing at all
		{reply: []byte{0}},
		{reply: []byte{0xff, 0xff, 0xff, 0xff, 'x'}, endless: true}, // too long
		{reply: bytes.Repeat([]byte{0, 0x10, 0, 0, 'x'}, 4000), endless: true},
		{reply: message(""), endless: true}, // unasked
		{reply: message("garbage\x00\xff\n\nbobnet (process 1 of user 0)\n  lies\x1b[2J")},
		{reply: message(others)},
		{reply: message(string(deep))},
		{reply: message(strings.Repeat("[", 200000))},
		{reply: message(strings.Repeat("x\n", agent.MaxText))}, // more than an answer of text may have
	}
	for _, b := range all {
		connectBad(t, path, b)
	}
	c := metrics.NewCollector(nil)
	c.WatchNIC(oneNIC(12345))
	defer c.AnswerAgent()()
	handler := agentHandler(s)
	get := func(path string) string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		return w.Body.String()
	}
	for end := time.Now().Add(time.Minute); !strings.Contains(get("/metrics"), " 12345\n"); {
		if time.Now().After(end) {
			t.Fatalf("the metrics of the good program are not there:\n%s", get("/metrics"))
		}
	}
	for range 3 {
		page, dump := get("/metrics"), get("/debug/bobnet")
		if !strings.Contains(page, " 12345\n") || strings.Contains(page, "init") || strings.Contains(page, "\nup") || strings.Count(page, "} 666\n") != 1 {
			t.Errorf("the metrics are\n%s", page)
		}
		if !strings.Contains(dump, "\n  NIC bob0 ") || strings.Contains(dump, "\x1b") || strings.Contains(dump, "\nbobnet (process 1 of") {
			t.Errorf("the dump is\n%.10000s", dump)
		}
	}
	if n := len(s.Programs()); n > len(all)-2 {
		t.Errorf("%d programs are connected: those that break the protocol should not be", n)
	}
}
