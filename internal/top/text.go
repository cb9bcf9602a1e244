package top

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Write writes the view as text: a line for each station and each VI.
func (v *View) Write(w io.Writer) error {
	_, err := io.WriteString(w, strings.Join(v.lines(), "\n")+"\n")
	return err
}

// lines returns the view as lines of text.
func (v *View) lines() []string {
	since := "no rates: seen once"
	if v.Seconds > 0 {
		since = fmt.Sprintf("rates of %.3g s", v.Seconds)
	}
	all := []string{fmt.Sprintf("%s  %d stations, %d VIs, %s", v.At.Format(time.TimeOnly), len(v.Stations), len(v.VIs), since)}
	for _, n := range v.Notes {
		all = append(all, oneLine(n))
	}
	if len(v.Stations) > 0 {
		all = append(append(all, ""), v.stations()...)
	}
	if len(v.VIs) > 0 {
		all = append(append(all, ""), v.vis()...)
	}
	return all
}

func (v *View) stations() []string {
	rows := [][]string{{"STATION", "PROGRAM", "INTERFACE", "DRIVER", ">VIS", ">TX B/s", ">RX B/s", ">TX fr/s", ">RX fr/s", ">AGAIN/s", ">DROPS/s"}}
	for _, s := range v.Stations {
		name := s.MAC + ":" + s.Port
		if s.Host != "" {
			name = s.Host + " " + name
		}
		vis := "-"
		if s.Program != "" {
			vis = fmt.Sprint(s.VIs)
		}
		rows = append(rows, []string{name, orDash(s.Program), orDash(s.Interface), orDash(s.Driver), vis,
			s.TxBytes.String(), s.RxBytes.String(), s.TxFrames.String(), s.RxFrames.String(), s.Retransmitted.String(), s.Dropped.String()})
	}
	return columns(rows)
}

func (v *View) vis() []string {
	rows := [][]string{{"VI", "PROGRAM", "REMOTE", "STATE", ">TX B/s", ">RX B/s", ">AGAIN/s", ">FLIGHT", ">QUEUE", ">UNTAKEN", ">RTT", ">OLDEST"}}
	for _, c := range v.VIs {
		rows = append(rows, []string{orDash(c.Interface) + ":" + c.VI, orDash(c.Program), orDash(c.Remote), orDash(c.State),
			c.TxBytes.String(), c.RxBytes.String(), c.Retransmitted.String(), fmt.Sprint(c.InFlight), fmt.Sprint(c.SendQueue), fmt.Sprint(c.Untaken),
			seconds(c.RoundTrip), seconds(c.Oldest)})
	}
	return columns(rows)
}

// columns lays cells out. Those below a heading that begins with > are flush right.
func columns(rows [][]string) []string {
	right, width := make([]bool, len(rows[0])), make([]int, len(rows[0]))
	for i, head := range rows[0] {
		rows[0][i], right[i] = strings.CutPrefix(head, ">")
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var lines []string
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			switch {
			case right[i]:
				cell = gap + cell
			case i < len(row)-1:
				cell += gap
			}
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(cell)
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// String writes a rate in at most five characters: 0, 12, 3.4k, 56M.
func (r Rate) String() string {
	f := float64(r)
	switch {
	case !r.Known():
		return "-"
	case f == 0:
		return "0"
	case f < 10:
		return fmt.Sprintf("%.1f", f)
	}
	for _, unit := range []string{"", "k", "M", "G", "T"} {
		switch {
		case f < 9.95 && unit != "":
			return fmt.Sprintf("%.1f%s", f, unit)
		case f < 999.5:
			return fmt.Sprintf("%.0f%s", f, unit)
		}
		f /= 1000
	}
	return "much"
}

// seconds writes a time in at most five characters.
func seconds(s float64) string {
	switch {
	case s <= 0:
		return "-"
	case s < 1e-3:
		return fmt.Sprintf("%.0fus", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.0fms", s*1e3)
	case s < 100:
		return fmt.Sprintf("%.1fs", s)
	}
	return fmt.Sprintf("%.0fs", min(s, 99999))
}

// oneLine keeps a line that may be long from moving the cursor.
func oneLine(line string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, line)
}
