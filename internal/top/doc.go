// Package top displays the activity of the stations of a segment: bobnet top.
//
// A Sample contains the metrics of all reachable programs at one time (Sample.Read), and the stations
// that have answered on the segment (Sample.Found). NewView computes a View with rates from two
// samples; it is pure. A view can be written as text (View.Write) or JSON. A Screen displays one view
// after the other on a terminal.
package top
