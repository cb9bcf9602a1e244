package top

import "strings"

// column is a column of a table: its heading, which begins with > if the cells below are flush
// right, and what is in it. The most important columns come first, after the name.
type column struct{ head, what string }

var stationColumns = []column{
	{"STATION", "host, MAC address and port of a NIC"},
	{">TX B/s", "bytes sent in a second, headers included"},
	{">RX B/s", "bytes received in a second, headers included"},
	{">AGAIN/s", "frames sent again in a second, because they or their acknowledgement were lost"},
	{">DROPS/s", "frames received and dropped in a second"},
	{"PROGRAM", "the program that has the NIC, as it calls itself or where its metrics are served; - if it tells nothing"},
	{"INTERFACE", "network interface of the NIC"},
	{">VIS", "VIs of the NIC, connected or not"},
	{">TX fr/s", "frames sent in a second"},
	{">RX fr/s", "frames received in a second"},
	{"DRIVER", "how frames travel"},
}

var viColumns = []column{
	{"VI", "interface and port of one end of a connection; other: those that are added up"},
	{">TX B/s", "bytes of payload sent in a second"},
	{">RX B/s", "bytes of payload received in a second"},
	{">AGAIN/s", "frames sent again in a second"},
	{">RTT", "round-trip time, smoothed"},
	{">OLDEST", "age of the oldest frame that is not acknowledged"},
	{"REMOTE", "address of the other end"},
	{">FLIGHT", "frames sent and not acknowledged"},
	{">QUEUE", "sends that are posted and not done"},
	{">UNTAKEN", "receives that are done and that the program has not taken"},
	{"STATE", "state of the connection"},
	{"PROGRAM", "the program that has the VI"},
}

// heads returns the headings of columns.
func heads(columns []column) []string {
	row := make([]string, len(columns))
	for i, c := range columns {
		row[i] = c.head
	}
	return row
}

// help explains keys and columns, in lines that fit the width; 0 is any width.
func help(width int) []string {
	rows := [][]string{
		{"KEY", "WHAT IT DOES"},
		{"t r o n", "order: most traffic, most retransmissions, oldest frame, name"},
		{"left right", "show other columns, where a heading ends in < or >"},
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

// explain lays out rows of a name and its explanation, which continues below itself where it
// is too long for the width.
func explain(rows [][]string, width int) []string {
	names := 0
	for _, row := range rows {
		names = max(names, len(row[0])+len("  "))
	}
	var lines [][]string
	for _, row := range rows {
		name, line := row[0], ""
		for _, word := range strings.Fields(row[1]) {
			if width > 0 && line != "" && names+len(line)+len(" ")+len(word) > width {
				lines = append(lines, []string{name, line})
				name, line = "", ""
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
		lines = append(lines, []string{name, line})
	}
	return layOut(lines, 0, 0)
}
