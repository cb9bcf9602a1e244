package vipl

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTo writes the snapshot as text, for a person who investigates why a program hangs. It writes
// the NIC with its link, drops, errors and engine, one line for each VI, and every send that has
// not been acknowledged. The order of lines and columns is stable. It implements io.WriterTo.
//
// A growing HEARD means that the peer is silent. Growing AGAIN and AGE with a small HEARD mean that
// frames get lost. A growing UNTAKEN means that the program does not take completed descriptors.
func (s Snapshot) WriteTo(w io.Writer) (int64, error) {
	var b bytes.Buffer
	a := &s.Attributes
	fmt.Fprintf(&b, "NIC %s  %v  driver %s  MTU %d  ports %d-%d  incarnation %016x\n",
		cmp.Or(a.Name, "(no name)"), a.Addr, a.Driver, a.NativeMTU, a.Ports.Lo, a.Ports.Hi, a.Incarnation)
	s.writeFacts(&b)
	s.writeVIs(&b)
	s.writeLedger(&b)
	return b.WriteTo(w)
}

// writeFacts writes the lines about the NIC as a whole.
func (s *Snapshot) writeFacts(b *bytes.Buffer) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	l := &s.Link
	fact := func(name string, parts ...string) {
		fmt.Fprintf(t, "  %s\t%s\n", name, strings.Join(parts, ", "))
	}
	fact("sent", plural(l.TxFrames, "frame"), amount(l.TxBytes), "in "+plural(l.TxCalls, "call"))
	fact("received", plural(l.RxFrames, "frame"), amount(l.RxBytes), "in "+plural(l.RxCalls, "call"), "slept "+plural(l.Waits, "time"))
	fact("lost by the link", orNone(nonZero(
		countOf("receive queue full", l.RxDrops), countOf("refused", l.TxDrops), countOf("truncated", l.RxTruncated),
		countOf("segments of long frames", l.RxTorn),
		countOf("injected faults", l.Faults)))...)
	fact("passed over", orNone(nonZero(countOf("not ours", l.RxFiltered), countOf("times the send queue was full", l.TxFull),
		countOf("times another user was refused", l.Refused)))...)
	fact("dropped", orNone(someDrops(&s.Dropped))...)
	wrong := nonZero(countOf("connections ended by an error", s.Failures), countOf("completion entries lost", s.CQOverruns),
		countOf("frames not sent", s.TxDropped), countOf("frames of strangers not answered", s.Unanswered),
		countOf("frames too long for the link", s.TxTooLong), countOf("log lines lost", s.LogsLost))
	for code, n := range s.Errors {
		wrong = append(wrong, nonZero(countOf(ErrorCode(code).String(), n))...)
	}
	if s.LinkErr != "" {
		wrong = append(wrong, "link: "+s.LinkErr)
	}
	fact("errors", orNone(wrong)...)
	e := &s.Engine
	fact("engine", e.Driver, "polled "+span(e.LastPoll)+" ago", e.timer(), plural(e.Waiting, "goroutine")+" waiting")
	fact("held back", orNone(nonZero(countOf("frames that the link did not take", uint64(e.Unsent)), countOf("VIs that wait for a fuller frame", uint64(e.Holding))))...)
	fact("memory", plural(s.Regions, "region"), amount(uint64(s.RegionBytes)))
	var ports []string
	for _, l := range s.Listeners {
		ports = append(ports, fmt.Sprintf("%d (%s waiting)", l.Port, plural(l.Backlog, "request")))
	}
	fact("listening", orNone(ports)...)
	names := make([]string, len(s.Names))
	for i, name := range s.Names {
		names[i] = strconv.Quote(name)
	}
	fact("names", orNone(names)...)
	t.Flush()
}

func (e *EngineSnapshot) timer() string {
	switch {
	case e.NextTimer == 0:
		return "no timer"
	case e.NextTimer < 0:
		return "timer overdue by " + span(-e.NextTimer)
	}
	return "next timer in " + span(e.NextTimer)
}

// writeVIs writes a line for each VI that is not idle, and the causes of failed VIs.
func (s *Snapshot) writeVIs(b *bytes.Buffer) {
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	idle, busy := 0, 0
	var failures []string
	for i := range s.VIs {
		v := &s.VIs[i]
		if v.Err != "" {
			failures = append(failures, fmt.Sprintf("  VI %d failed: %s\n", v.Local.Port, v.Err))
		}
		if v.State == StateIdle {
			idle++
			continue
		}
		if busy++; busy == 1 {
			fmt.Fprintln(t, "  VI\tSTATE\tPEER\tLEVEL\tFRAME\tHEARD\tSENDQ\tRECVQ\tUNTAKEN\tOLDEST\tFLIGHT\tWINDOW\tSSTHRESH\tRTT\tTRIES\tAGAIN\tARRIVING\tRDMA\tDROPPED")
		}
		v.writeLine(t)
	}
	fmt.Fprintf(b, "\n  %s, %d of them idle\n", plural(len(s.VIs), "VI"), idle)
	if s.Others > 0 {
		fmt.Fprintf(b, "  and %d more, omitted\n", s.Others)
	}
	t.Flush()
	for _, line := range failures {
		b.WriteString(line)
	}
}

func (v *VISnapshot) writeLine(w io.Writer) {
	frame, heard, oldest, arriving, flight, window, threshold, rtt, tries := "-", "-", "-", "-", "-", "-", "-", "-", "-"
	switch v.State {
	case StateConnected:
		frame, heard = strconv.Itoa(v.FrameData)+" B", span(time.Duration(v.LastHeard))
		if v.LongCut > 0 {
			frame += ", cut"
		}
		if v.Probes > 0 {
			heard += " (" + plural(v.Probes, "probe") + ")"
		}
	case StateConnectPending:
		heard = "gives up in " + span(v.GivesUp)
	}
	if age := v.OldestUnacknowledged(); age > 0 {
		oldest = span(age)
	}
	if a := v.Arriving; a != nil {
		arriving = fmt.Sprintf("%d of %d B", a.Got, a.Size)
	}
	if tx := &v.Sender; v.State == StateConnected && v.Level.Reliable() {
		flight, tries = strconv.Itoa(tx.InFlight), strconv.Itoa(tx.Tries)
		window, threshold = formatFrames(tx.Window), formatFrames(tx.Threshold)
		if tx.RTT > 0 {
			rtt = span(tx.RTT)
		}
	}
	fmt.Fprintf(w, "  %d\t%v\t%v\t%v\t%s\t%s\t%d\t%d\t%d/%d\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n",
		v.Local.Port, v.State, v.Remote, v.Level, frame, heard, v.SendQueue-v.SendUntaken, v.RecvQueue-v.RecvUntaken, v.SendUntaken, v.RecvUntaken,
		oldest, flight, window, threshold, rtt, tries, v.Retransmits, arriving, amount(v.RDMABytes),
		cmp.Or(strings.Join(someDrops(&v.Dropped), ", "), "-"))
}

// writeLedger writes the incomplete sends, the oldest of each VI first.
func (s *Snapshot) writeLedger(b *bytes.Buffer) {
	b.WriteByte('\n')
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	lines := 0
	for i := range s.VIs {
		v := &s.VIs[i]
		for _, p := range v.Pending {
			if lines++; lines == 1 {
				fmt.Fprintln(t, "  UNACKNOWLEDGED\tMESSAGE\tOPERATION\tBYTES\tSENT\tAGE\tSENT LAST")
			}
			msg, age, again := "-", "-", "-"
			if p.Sent > 0 || p.Age > 0 {
				msg = strconv.FormatUint(uint64(p.Msg), 10)
			}
			if p.Age > 0 {
				age, again = span(p.Age), span(p.Again)+" ago"
			}
			fmt.Fprintf(t, "  VI %d\t%s\t%v\t%d\t%d\t%s\t%s\n", v.Local.Port, msg, p.Op, p.Size, p.Sent, age, again)
		}
		if more := v.SendQueue - v.SendUntaken - len(v.Pending); more > 0 {
			fmt.Fprintf(t, "  VI %d\t\tand %d more\n", v.Local.Port, more)
		}
	}
	t.Flush()
	if lines == 0 {
		b.WriteString("  no send is unacknowledged\n")
	}
}
