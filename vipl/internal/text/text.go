// Package text has the words and numbers of a snapshot that is written for people: counts,
// amounts, times.
package text

import (
	"fmt"
	"strconv"
	"time"
)

// Counted is a thing that has a count.
type Counted struct {
	what string
	n    uint64
}

// Count returns a thing and its count.
func Count(what string, n uint64) Counted { return Counted{what, n} }

// Some lists the things that have occurred.
func Some(all ...Counted) []string {
	var list []string
	for _, c := range all {
		if c.n > 0 {
			list = append(list, fmt.Sprintf("%s %d", c.what, c.n))
		}
	}
	return list
}

// OrNone returns list, or if it is empty the word for that.
func OrNone(list []string) []string {
	if len(list) == 0 {
		return []string{"none"}
	}
	return list
}

// Plural returns a count of things.
func Plural[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Amount returns bytes with a unit of 1000, to a tenth.
func Amount(n uint64) string {
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

// Span returns a time to about three digits.
func Span(d time.Duration) string {
	unit := time.Duration(1)
	for x := max(d, -d); x >= 1000; x /= 10 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Frames returns a window, which may be a part of a frame.
func Frames(f float64) string { return strconv.FormatFloat(f, 'g', 3, 64) }
