package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
)

// Screen displays one view after the other on a terminal until the user quits. It is a thin layer:
// it displays the lines of a View.
type Screen struct {
	take   func() *Sample // reads all sources, which can take a while
	every  time.Duration
	before *Sample
	view   *View
	by     Order
	paused bool
	top    int // the first line that is shown below the title
	skip   int // columns left out behind the first
	help   bool
	width  int
	height int
}

var _ tea.Model = Screen{}

// NewScreen returns a screen that takes the next sample at the interval every after the last one.
func NewScreen(take func() *Sample, every time.Duration, by Order) Screen {
	return Screen{take: take, every: every, by: by}
}

// Run displays the screen until the user quits, which is not an error, or ctx is done.
func (s Screen) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithAltScreen(), tea.WithoutSignalHandler()).Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, tea.ErrProgramKilled) {
		return nil
	}
	return err
}

// again requests the next sample.
type again struct{}

// Init implements tea.Model.
func (s Screen) Init() tea.Cmd { return s.sample }

func (s Screen) sample() tea.Msg { return s.take() }

// Update implements tea.Model.
func (s Screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch m := msg.(type) {
	case *Sample:
		if !s.paused {
			s.view = NewView(s.before, m)
			s.view.Sort(s.by)
		}
		s.before = m
		return s, tea.Tick(s.every, func(time.Time) tea.Msg { return again{} })
	case again:
		return s, s.sample
	case tea.WindowSizeMsg:
		s.width, s.height = m.Width, m.Height
	case tea.KeyMsg:
		return s.key(m.String())
	}
	return s, nil
}

// key handles a key.
func (s Screen) key(name string) (tea.Model, tea.Cmd) {
	order := map[string]Order{"t": ByTraffic, "r": ByRetransmissions, "o": ByOldest, "n": ByName}
	switch name {
	case "q", "esc", "ctrl+c":
		return s, tea.Quit
	case "p", " ":
		s.paused = !s.paused
	case "up", "k":
		s.top = max(s.top-1, 0)
	case "left", "h":
		s.skip = max(s.skip-1, 0)
	case "right", "l":
		s.skip = min(s.skip+1, max(len(stationColumns), len(viColumns))-2)
	case "?":
		s.help, s.top = !s.help, 0
	case "down", "j":
		s.top = min(s.top+1, s.last())
	default:
		if by, ok := order[name]; ok {
			s.by = by
			if s.view != nil {
				s.view.Sort(by)
			}
		}
	}
	return s, nil
}

// lines returns all lines, and in room the number of lines that fit on the screen.
func (s Screen) lines() (all []string, room int) {
	all = []string{"asking..."}
	if s.view != nil {
		all = s.view.lines(s.width, s.skip)
	}
	if s.help {
		all = help(s.width)
	}
	if room = len(all); s.height > 0 {
		room = max(s.height-1, 1)
	}
	return all, room
}

// last returns the first line on the last page.
func (s Screen) last() int {
	all, room := s.lines()
	return max(len(all)-room, 0)
}

// View implements tea.Model.
func (s Screen) View() string {
	title := "bobnet top, by " + string(s.by)
	if s.paused {
		title += " (paused)"
	}
	title += "   ? help, q quit, arrows"
	lines, room := s.lines()
	first := min(s.top, s.last())
	shown := append([]string{title}, lines[first:min(first+room, len(lines))]...)
	for i, line := range shown {
		if r := []rune(line); s.width > 0 && len(r) > s.width {
			shown[i] = string(r[:s.width])
		}
	}
	return strings.Join(shown, "\n")
}
