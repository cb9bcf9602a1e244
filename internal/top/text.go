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
	_, err := io.WriteString(w, strings.Join(v.lines(0, 0), "\n")+"\n")
	return err
}

// lines returns the view as lines of text. A table contains the first column, and the columns after
// the next skip that fit into width characters (0: all).
func (v *View) lines(width, skip int) []string {
	since := "no rates: only one sample"
	if v.Seconds > 0 {
		since = fmt.Sprintf("rates of %.3g s", v.Seconds)
	}
	all := []string{fmt.Sprintf("%s  %d stations, %d VIs, %s", v.At.Format(time.TimeOnly), len(v.Stations), len(v.VIs), since)}
	for _, n := range v.Notes {
		all = append(all, wrap(oneLine(n), width)...)
	}
	if len(v.Stations) > 0 {
		all = append(append(all, ""), layOut(v.stations(), width, skip)...)
	}
	if len(v.VIs) > 0 {
		all = append(append(all, ""), layOut(v.vis(), width, skip)...)
	}
	return all
}

func (v *View) stations() [][]string {
	rows := [][]string{heads(stationColumns)}
	for _, s := range v.Stations {
		name := s.MAC + ":" + s.Port
		if s.Host != "" {
			name = s.Host + " " + name
		}
		vis := "-"
		if s.Program != "" {
			vis = fmt.Sprint(s.VIs)
		}
		rows = append(rows, []string{name, s.TxBytes.String(), s.RxBytes.String(), s.Retransmitted.String(), s.Dropped.String(),
			orDash(s.Program), orDash(s.Interface), vis, s.TxFrames.String(), s.RxFrames.String(), orDash(s.Driver)})
	}
	return rows
}

func (v *View) vis() [][]string {
	rows := [][]string{heads(viColumns)}
	for _, c := range v.VIs {
		rows = append(rows, []string{orDash(c.Interface) + ":" + c.VI, c.TxBytes.String(), c.RxBytes.String(), c.Retransmitted.String(),
			seconds(c.RoundTrip), seconds(c.Oldest), orDash(c.Remote), fmt.Sprint(c.InFlight), fmt.Sprint(c.SendQueue), fmt.Sprint(c.Untaken),
			orDash(c.State), orDash(c.Program)})
	}
	return rows
}

func trimHead(head string) string { return strings.TrimPrefix(head, ">") }

// layOut lays out cells: the first column, and the columns after the next skip that fit into limit
// characters (0: all). It aligns cells below a heading that begins with > to the right. The first
// heading ends in < if columns were skipped, and the last one in > if there are more.
func layOut(rows [][]string, limit, skip int) []string {
	right, width := make([]bool, len(rows[0])), make([]int, len(rows[0]))
	for i, head := range rows[0] {
		right[i] = head != trimHead(head)
		rows[0][i] = trimHead(head)
	}
	skip = min(skip, len(rows[0])-2)
	if skip > 0 {
		rows[0][0] += " <"
	}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	shown, used := []int{0}, width[0]
	for i := 1 + skip; i < len(width); i++ {
		more := 0
		if i < len(width)-1 {
			more = len(" >")
		}
		if used += 2 + width[i]; limit > 0 && used+more > limit {
			break
		}
		shown = append(shown, i)
	}
	lines := make([]string, 0, len(rows))
	for _, row := range rows {
		lines = append(lines, layRow(row, shown, right, width))
	}
	if shown[len(shown)-1] < len(width)-1 {
		lines[0] += " >"
	}
	return lines
}

// layRow lays out the displayed cells of a row.
func layRow(row []string, shown []int, right []bool, width []int) string {
	var b strings.Builder
	for n, i := range shown {
		cell := row[i]
		gap := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		if right[i] {
			cell = gap + cell
		} else {
			cell += gap
		}
		if n > 0 {
			b.WriteString("  ")
		}
		b.WriteString(cell)
	}
	return strings.TrimRight(b.String(), " ")
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// String formats a rate in at most five characters: 0, 12, 3.4k, 56M.
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

// seconds formats a time in at most five characters.
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

// oneLine makes a line that may be long safe for the screen: it does not move the cursor.
func oneLine(line string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return ' '
		}
		return c
	}, line)
}
