class EngineTests: pass
