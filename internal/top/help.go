package top

import (
	"strings"
	"unicode/utf8"
)

// column is a column of a table: its heading and its explanation. A heading that begins with >
// aligns its cells to the right. The most important columns come first, after the name.
type column struct{ head, what string }

var stationColumns = []column{
	{"STATION", "host, MAC address and port of a NIC"},
	{">TX B/s", "bytes sent per second, including headers"},
	{">RX B/s", "bytes received per second, including headers"},
	{">AGAIN/s", "retransmitted frames per second: they or their acknowledgement were lost"},
	{">DROPS/s", "frames received and dropped per second"},
	{"PROGRAM", "program of the NIC, by its name or the address of its metrics; - if it serves none"},
	{"INTERFACE", "network interface of the NIC"},
	{">VIS", "VIs of the NIC, connected or not"},
	{">TX fr/s", "frames sent per second"},
	{">RX fr/s", "frames received per second"},
	{"DRIVER", "driver that carries the frames"},
}

var viColumns = []column{
	{"VI", "interface and port of one end of a connection; other: the sum of several"},
	{">TX B/s", "payload bytes sent per second"},
	{">RX B/s", "payload bytes received per second"},
	{">AGAIN/s", "retransmitted frames per second"},
	{">RTT", "round-trip time, smoothed"},
	{">OLDEST", "age of the oldest unacknowledged frame"},
	{"REMOTE", "address of the other end"},
	{">FLIGHT", "unacknowledged frames"},
	{">QUEUE", "posted sends that are not complete"},
	{">UNTAKEN", "completed receives that the program has not taken"},
	{"STATE", "state of the connection"},
	{"PROGRAM", "program of the VI"},
}

// heads returns the headings of columns.
func heads(columns []column) []string {
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.head
	}
	return row
}

// help explains keys and columns, in lines that fit the width; 0 means no limit.
func help(width int) []string {
	rows := [][]string{
		{"KEY", "WHAT IT DOES"},
		{"t r o n", "order: most traffic, most retransmissions, oldest frame, name"},
		{"left right", "show other columns, if a heading ends in < or >"},
		{"up down", "scroll"},
		{"p", "pause"},
		{"?", "this help, and back"},
		{"q", "quit"},
	}
	lines := explain(rows, width)
	for _, table := range [][]column{stationColumns, viColumns} {
		rows := [][]string{}
		for _, c := range table {
			rows = append(rows, []string{trimHead(c.head), c.what})
		}
		lines = append(append(lines, ""), explain(rows, width)...)
	}
	return lines
}

// explain lays out rows of a name and its explanation. An explanation that is too long for the width
// continues on the next line.
func explain(rows [][]string, width int) []string {
	names := 0
	for _, row := range rows {
		names = max(names, len(row[0])+len("  "))
	}
	var lines [][]string
	for _, row := range rows {
		name, room := row[0], 0
		if width > 0 {
			room = max(1, width-names)
		}
		for _, line := range wrap(row[1], room) {
			lines = append(lines, []string{name, line})
			name = ""
		}
	}
	return layOut(lines, 0, 0)
}

// wrap splits a text into lines of at most width characters, between words if they fit; 0 means one line.
func wrap(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if width > 0 && line != "" && utf8.RuneCountInString(line+" "+word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
		for r := []rune(line); width > 0 && len(r) > width; r = []rune(line) {
			lines = append(lines, string(r[:width]))
			line = string(r[width:])
		}
	}
	return append(lines, line)
}
