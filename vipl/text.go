package vipl

import (
	"fmt"
	"strconv"
	"time"
)

// namedCount is a count with its name.
type namedCount struct {
	what string
	n    uint64
}

// countOf returns a count with its name.
func countOf(what string, n uint64) namedCount { return namedCount{what, n} }

// nonZero formats the counts that are not zero.
func nonZero(all ...namedCount) []string {
	var list []string
	for _, c := range all {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%s %d", c.what, c.n))
		}
	}
	return list
}

// orNone returns list, or "none" if it is empty.
func orNone(list []string) []string {
	if len(list) == 0 {
		return []string{"none"}
	}
	return list
}

// plural formats a count of things.
func plural[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// amount formats a number of bytes with a decimal unit, to a tenth.
func amount(n uint64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	f, i := float64(n)/1000, 0
	for ; f >= 999.95; i++ {
		f /= 1000
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + " " + units[i:i+1] + "B"
}

// span formats a duration to about three digits.
func span(d time.Duration) string {
	unit := time.Duration(1)
	for x := max(d, -d); x >= 1000; x /= 10 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// formatFrames formats a congestion window, which may be less than one frame.
func formatFrames(f float64) string { return strconv.FormatFloat(f, 'g', 3, 64) }
