package reliability

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/bobnet-go/bobnet/ethertype"
)

// script plays a story: lines of what happens and when, and indented below
// each what a Sender and a Receiver do about it. The whole text must come out
// as it was written. Times are since the start; sequence numbers count from
// the first of the connection, whatever that is on the wire.
//
//	10us push 3            the caller has 3 more frames to send
//	10us ack 5 sack 7-9    an acknowledgement arrives: 5 expected, 7 to 9 are in
//	10us frame 4 [now]     a frame arrives [that asks for an acknowledgement]
//	10us show              print the state of the Sender
//	10us count             print what both have counted, leaving out zeros
//	10us wait              let time pass until then
//	    10us send 1 2 3!   frames go; "!" asks for an acknowledgement
//	    10us again 2       a frame goes again
//	    10us bare 5 sack 7 a bare acknowledgement goes
type script struct {
	Sender
	Receiver
	first   ethertype.Seq
	now     int64
	backlog int
	dead    bool
	out     strings.Builder
}

const scriptStart = 1 // Link.Now never returns 0

// story plays text from a connection's start and fails t when it came
// out differently.
func story(t *testing.T, cfg *Config, first ethertype.Seq, text string) *script {
	t.Helper()
	s := &script{first: first, now: scriptStart}
	s.Sender.Init(cfg, first)
	s.Receiver.Init(cfg, first)
	var want strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.ReplaceAll(line, "\t", ""), " \n")
		if line == "" {
			continue
		}
		want.WriteString(line + "\n")
		if !strings.HasPrefix(line, " ") {
			s.play(t, line)
		}
	}
	if s.out.String() != want.String() {
		t.Errorf("the story went otherwise:\n%s", &s.out)
	}
	return s
}

func (s *script) play(t *testing.T, line string) {
	t.Helper()
	words := strings.Fields(line)
	s.pass(scriptStart + parseTime(t, words[0]))
	s.out.WriteString(line + "\n")
	switch words[1] {
	case "push":
		s.backlog += parseInt(t, words[2])
	case "ack":
		sack, more := parseSack(t, words[2:])
		s.OnAck(s.now, s.first+ethertype.Seq(parseInt(t, words[2])), sack, more)
	case "frame":
		s.frame(s.first+ethertype.Seq(parseInt(t, words[2])), len(words) > 3)
	case "show":
		st := s.Sender.Stats()
		s.say("window %.2f, %d in flight, %d lost, rtt %s, rto %s", st.Window, st.InFlight, st.Queued,
			showTime(int64(st.RTT)), showTime(int64(st.RTO)))
	case "count":
		s.say("%s", strings.Join(append(counted(s.Sender.Stats().SenderCounters), counted(s.Receiver.Stats())...), ", "))
	case "wait":
	default:
		t.Fatalf("what is %q?", line)
	}
	s.turn()
}

// pass lets time go by to till, stopping at every deadline.
func (s *script) pass(till int64) {
	for !s.dead {
		at := max(min(s.Sender.Deadline(), s.Receiver.Deadline()), s.now)
		if at > till {
			break
		}
		s.now = at
		if err := s.OnTimer(s.now); err != nil {
			s.say("%v", err)
			s.dead = true
		}
		s.turn()
	}
	s.now = till
}

// turn sends all that may be sent.
func (s *script) turn() {
	for _, seq, ok := s.Retransmit(s.now); ok; _, seq, ok = s.Retransmit(s.now) {
		s.say("again %d", seq.Sub(s.first))
	}
	var sent []string
	for s.backlog > 0 && s.Room(s.now) > 0 {
		s.backlog--
		seq, ask := s.Push(s.now, Sent{}, false)
		sent = append(sent, strconv.Itoa(seq.Sub(s.first)))
		if ask {
			sent[len(sent)-1] += "!"
		}
	}
	if len(sent) > 0 {
		s.say("send %s", strings.Join(sent, " "))
	}
	if s.AckDue(s.now) {
		ack, sack := s.Ack()
		s.say("bare %d%s", ack.Sub(s.first), showSack(ack.Sub(s.first), sack))
		s.AckSent(s.now, false)
	}
}

func (s *script) frame(seq ethertype.Seq, ackNow bool) {
	switch verdict := s.Check(seq); verdict {
	case Accept:
		s.Accept(s.now, seq, ackNow, false)
	case Duplicate:
		s.say("%v", verdict)
		s.Receiver.Duplicate()
	case Ahead:
		s.say("%v", verdict)
	}
}

func (s *script) say(format string, args ...any) {
	fmt.Fprintf(&s.out, "    %s %s\n", showTime(s.now-scriptStart), fmt.Sprintf(format, args...))
}

// counted names the counters of a struct of counters that are not zero.
func counted(counters any) (names []string) {
	for field, n := range reflect.ValueOf(counters).Fields() {
		if !n.IsZero() {
			names = append(names, fmt.Sprintf("%s %d", strings.ToLower(field.Name), n.Uint()))
		}
	}
	return names
}

func showSack(ack int, sack uint64) string {
	if sack == 0 {
		return ""
	}
	var b strings.Builder
	for i := 0; i < 64; i++ {
		if sack>>i&1 == 0 {
			continue
		}
		from := i
		for i < 63 && sack>>(i+1)&1 != 0 {
			i++
		}
		fmt.Fprintf(&b, " %d", ack+1+from)
		if i > from {
			fmt.Fprintf(&b, "-%d", ack+1+i)
		}
	}
	return " sack" + b.String()
}

// parseSack reads "5 sack 7-9 11" into the bits behind 5.
func parseSack(t *testing.T, words []string) (sack uint64, more []byte) {
	t.Helper()
	ack := parseInt(t, words[0])
	bits := make([]byte, MaxSack)
	for _, word := range words[min(2, len(words)):] {
		from, to, isRange := strings.Cut(word, "-")
		if !isRange {
			to = from
		}
		for n := parseInt(t, from) - ack - 1; n <= parseInt(t, to)-ack-1; n++ {
			if n < 64 {
				sack |= 1 << n
				continue
			}
			n -= 64
			bits[n/64*8+7-n%64/8] |= 1 << (n % 8)
			more = bits[:n/64*8+8]
			n += 64
		}
	}
	return sack, more
}

func parseInt(t *testing.T, word string) int {
	t.Helper()
	n, err := strconv.Atoi(word)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var units = []struct {
	name string
	ns   int64
}{{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}}

func parseTime(t *testing.T, word string) int64 {
	t.Helper()
	for _, u := range units {
		if n, err := strconv.ParseInt(strings.TrimSuffix(word, u.name), 10, 64); err == nil {
			return n * u.ns
		}
	}
	t.Fatalf("%q is no time", word)
	return 0
}

func showTime(ns int64) string {
	for i := len(units) - 1; i > 0; i-- {
		if ns%units[i].ns == 0 && ns != 0 {
			return fmt.Sprintf("%d%s", ns/units[i].ns, units[i].name)
		}
	}
	return fmt.Sprintf("%dns", ns)
}
