// Package top shows what goes on at the stations of a segment: bobnet top.
//
// A Sample is what the metrics of all programs that can be asked said at one time, in
// Prometheus's text format (Sample.Read), and which stations have answered on the segment
// (Sample.Found). Two samples make a View, with rates, which is pure. It is written as text
// (View.Write), as JSON, or by a Screen, which shows one view after the other on a terminal.
package top
