package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"net"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bobnet-go/bobnet/internal/link/agent"
	"github.com/bobnet-go/bobnet/internal/nodeagent"
	"github.com/bobnet-go/bobnet/metrics"
	"github.com/bobnet-go/bobnet/vipl"
)

// bad is a program that answers the agent's questions with octets, which it sends again and
// again if they have no end.
type bad struct {
	conn    *net.UnixConn
	octets  []byte
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
			if _, err := b.conn.Write(b.octets); err != nil || !b.endless {
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
		{octets: nil}, // says nothing at all
		{octets: []byte{0}},
		{octets: []byte{0xff, 0xff, 0xff, 0xff, 'x'}, endless: true}, // too long
		{octets: bytes.Repeat([]byte{0, 0x10, 0, 0, 'x'}, 4000), endless: true},
		{octets: message(""), endless: true}, // unasked
		{octets: message("garbage\x00\xff\n\nbobnet (process 1 of user 0)\n  lies\x1b[2J")},
		{octets: message(others)},
		{octets: message(string(deep))},
		{octets: message(strings.Repeat("[", 200000))},
		{octets: message(strings.Repeat("x\n", agent.MaxText))}, // more than an answer of text may have
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
