"""The hooks of azd around packaging."""
