package paper

// Constant is one number of a profile.
type Constant struct {
	Name  string
	Value float64
	Unit  string
	Item  string // the input that fixed it; "" if none did
	Why   string // how, or why no published number fixes it
}

// Profile is the hardware of a paper, as the model has it.
type Profile struct {
	Name      string
	Is        string // the machines
	Constants []Constant
}

// Paper is one paper: what it has published, on which hardware, and the experiments that
// repeat it.
type Paper struct {
	Name        string // as --only has it
	Title       string
	Profiles    []Profile
	Items       []Item
	Experiments []Experiment
	Figures     []string // the names of what the experiments draw, in the paper's order
}

// item returns the item of a name, nil for none.
func (p *Paper) item(name string) *Item {
	for i := range p.Items {
		if p.Items[i].Name == name {
			return &p.Items[i]
		}
	}
	return nil
}

// Papers returns all papers, in the order in which they are repeated.
func Papers() []*Paper { return []*Paper{am2Paper(), vmmcPaper(), bobnetPaper(), splitcPaper()} }
