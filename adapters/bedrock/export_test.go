package bedrock

// Bound bounds m's answers to so many bytes.
func (m *Model) Bound(bytes int) { m.most = bytes }
